#pragma once

#include <cstdint>

#include "shard/backend/matrix.h"

namespace penstock {

// Calls visit(address, offset, count) for each run of neighbouring elements among [begin, end) of a
// matrix in row-major order; offset counts from `begin`.
template <typename Visit>
void ForEachRun(Matrix matrix, int64_t begin, int64_t end, Visit visit) {
  if (matrix.stride == matrix.cols || matrix.rows == 1) {
    if (begin < end)
      visit(matrix.At(begin / matrix.cols, begin % matrix.cols), int64_t{0}, end - begin);
    return;
  }
  for (int64_t at = begin; at < end;) {
    const int64_t row = at / matrix.cols, col = at % matrix.cols;
    const int64_t count = matrix.cols - col < end - at ? matrix.cols - col : end - at;
    visit(matrix.At(row, col), at - begin, count);
    at += count;
  }
}

// Elements [begin, end) of a matrix in row-major order, out of it and into it.
void Pack(Matrix from, int64_t begin, int64_t end, void* to);
void Unpack(const void* from, int64_t begin, int64_t end, Matrix to);

// sum[i] = ((v[0][i] + v[1][i]) + v[2][i]) + ... of `ranks` >= 2 arrays; `sum` may not overlap
// them.
void SumInOrder(const float* const* values, int ranks, int64_t count, float* sum);

}  // namespace penstock
