#include "shard/backend/cpu/cpu_context.h"

namespace penstock {

bool CpuContext::CheckMatrix(const Matrix& m, int64_t rows, int64_t cols, DType dtype,
                             absl::string_view op, absl::string_view name) {
  if (!status.ok()) return false;
  const bool empty = rows == 0 || cols == 0;
  if (m.rows == rows && m.cols == cols && m.dtype == dtype &&
      (empty || (m.data != nullptr && (m.stride >= cols || rows == 1))))
    return true;
  Fail(absl::InvalidArgumentError(absl::StrCat(op, ": ", name, " must be [", rows, ", ", cols, "] ",
                                               Name(dtype), ", is [", m.rows, ", ", m.cols, "] ",
                                               Name(m.dtype), " with stride ", m.stride,
                                               m.data == nullptr ? " without data" : "")));
  return false;
}

}  // namespace penstock
