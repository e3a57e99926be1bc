#include <algorithm>
#include <vector>

#include "shard/checkpoint/gguf_checkpoint.h"
#include "shard/checkpoint/stored_tensor.h"
#include "tests/fuzz/memory_file.h"

namespace penstock {
namespace {

// A corner of a tensor, so that absurd shapes cost nothing.
void ReadCorner(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  const MatrixShape shape = ShapeAsMatrix(tensor.shape);
  const Range rows = {shape.rows - std::min<int64_t>(shape.rows, 8), shape.rows};
  const Range cols = {shape.cols - std::min<int64_t>(shape.cols, 65), shape.cols};
  std::vector<float> out(static_cast<size_t>(rows.size() * cols.size()));
  checkpoint.Read(tensor.name, rows, cols, DType::kF32, out.data(), nullptr).IgnoreError();
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const penstock::MemoryFile memory(data, size);
  const auto checkpoint = penstock::OpenGguf(memory.path());
  if (!checkpoint.ok()) return 0;
  for (const penstock::TensorInfo& tensor : (*checkpoint)->Tensors())
    penstock::ReadCorner(**checkpoint, tensor);
  return 0;
}
