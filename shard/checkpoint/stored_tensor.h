#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/base/dtype.h"
#include "shard/base/range.h"
#include "shard/checkpoint/checkpoint.h"
#include "shard/checkpoint/file.h"
#include "shard/checkpoint/stored_type.h"

namespace penstock {

// Where a tensor's bytes are and how they are to be understood. The file is borrowed and holds
// [offset, offset + info.stored_bytes).
struct StoredTensor {
  TensorInfo info;
  const StoredType* type = nullptr;
  const File* file = nullptr;
  int64_t offset = 0;
  // Above 0: within every group of so many rows (an attention head's), the file keeps row j of the
  // first half and row j of the second half side by side, for rotary embeddings that rotate
  // neighbours; readers see the halves one behind the other.
  int64_t interleaved_rows = 0;
};

// A tensor seen as a matrix: a vector is one row, more dimensions than two fold into the rows.
struct MatrixShape {
  int64_t rows = 0, cols = 0;
};
MatrixShape ShapeAsMatrix(const std::vector<int64_t>& shape);

// The number of elements; InvalidArgument when a dimension is negative or the product of those that
// are not 0 overflows.
absl::StatusOr<int64_t> CountElements(const std::vector<int64_t>& shape);

// Checkpoint::Read for one tensor. Memory: one staging buffer of at most 1 MiB (one block, if that
// is larger). Of each row the wanted columns are read, to whole blocks, when those are less than
// 1/8 of the row and at least 64 KiB: only then the saved bytes outweigh the larger number of
// smaller reads. Otherwise whole rows are read, many at a time. Rows that are interleaved are read
// with all rows of their group. Errors do not name the tensor.
absl::Status ReadWindow(const StoredTensor& tensor, Range rows, Range cols, DType dtype, void* out,
                        ReadProgress* progress);

}  // namespace penstock
