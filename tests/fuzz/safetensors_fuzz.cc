#include <algorithm>
#include <vector>

#include "shard/checkpoint/safetensors.h"
#include "tests/fuzz/memory_file.h"

namespace penstock {
namespace {

// A corner of a tensor, so that absurd shapes cost nothing.
void ReadCorner(const StoredTensor& tensor) {
  const MatrixShape shape = ShapeAsMatrix(tensor.info.shape);
  const Range rows = {shape.rows - std::min<int64_t>(shape.rows, 8), shape.rows};
  const Range cols = {shape.cols - std::min<int64_t>(shape.cols, 65), shape.cols};
  std::vector<uint16_t> out(static_cast<size_t>(rows.size() * cols.size()));
  ReadWindow(tensor, rows, cols, DType::kF16, out.data(), nullptr).IgnoreError();
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const penstock::MemoryFile memory(data, size);
  const auto file = penstock::File::Open(memory.path());
  if (!file.ok()) return 0;
  const auto tensors = penstock::ReadSafetensors(**file);
  if (!tensors.ok()) return 0;
  for (const penstock::StoredTensor& tensor : *tensors) penstock::ReadCorner(tensor);
  return 0;
}
