#pragma once

#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "shard/backend/activation.h"
#include "shard/backend/cpu/isa.h"
#include "shard/backend/cpu/thread_pool.h"
#include "shard/backend/matrix.h"

namespace penstock {

using ActivationKernel = void (*)(int64_t n, float* inout);

// What the operations of one CPU backend share: its kernels, its threads and its first error.
struct CpuContext {
  Isa isa;
  bool bf16_dot = false;  // compute mode: bf16 weights are packed for the dot product
  ThreadPool* pool = nullptr;
  absl::Status status;  // sticky

  const KernelTable& kernels() const { return *isa.kernels; }
  ActivationKernel KernelOf(Activation activation) const;

  // Keeps the first error; operations after it do nothing.
  void Fail(absl::Status error) {
    if (status.ok()) status = std::move(error);
  }
  // False, and an error of `op` and the parts of `what` together, when an operand is not as it must
  // be. False after an error.
  template <typename... Parts>
  bool Check(bool condition, absl::string_view op, const Parts&... what) {
    if (!condition) Fail(absl::InvalidArgumentError(absl::StrCat(op, ": ", what...)));
    return condition && status.ok();
  }
  // Likewise: `m` is a [rows, cols] matrix of `dtype` with data behind it.
  bool CheckMatrix(const Matrix& m, int64_t rows, int64_t cols, DType dtype, absl::string_view op,
                   absl::string_view name);
  // Calls task(row) for every row of `cols` numbers, shared out over the pool when that saves time.
  void ForRows(int64_t rows, int64_t cols, absl::FunctionRef<void(int64_t row)> task) const;
};

// The function for a storage type.
template <typename Function>
Function* Select(const PerDType<Function>& functions, DType dtype) {
  if (dtype == DType::kF16) return functions.f16;
  return dtype == DType::kBF16 ? functions.bf16 : functions.f32;
}

}  // namespace penstock
