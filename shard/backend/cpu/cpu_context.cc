#include "shard/backend/cpu/cpu_context.h"

#include <algorithm>

namespace penstock {
namespace {

// Numbers per thread below which waking the others costs more than it saves.
constexpr int64_t kGrain = 1 << 14;

}  // namespace

ActivationKernel CpuContext::KernelOf(Activation activation) const {
  switch (activation) {
    case Activation::kGelu: return kernels().gelu;
    case Activation::kGeluTanh: return kernels().gelu_tanh;
    case Activation::kRelu: return kernels().relu;
    case Activation::kTanh: break;
  }
  return kernels().tanh;
}

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

void CpuContext::ForRows(int64_t rows, int64_t cols,
                         absl::FunctionRef<void(int64_t row)> task) const {
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, cols));
  pool->ForRanges(rows, grain, [&](Range range, int) {
    for (int64_t row = range.begin; row < range.end; ++row) task(row);
  });
}

}  // namespace penstock
