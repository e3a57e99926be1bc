#pragma once

#include <vector>

#include "shard/backend/cpu/cpu_context.h"
#include "shard/backend/cpu/matmul.h"
#include "shard/backend/cpu/packed_weight.h"
#include "shard/backend/ops.h"

namespace penstock {

// Dense algebra on the CPU. Work happens before a call returns. Results do not depend on the number
// of threads: threads share out whole output elements or rows, never a sum.
class CpuDense : public DenseOps {
 public:
  explicit CpuDense(CpuContext& context);

  void Embed(const Weight& table, Matrix ids, int32_t first_id, Matrix out) override;
  void MatMul(Matrix x, const Weight& weight, Matrix bias, Matrix out) override;
  void MatMulActivate(Matrix x, const Weight& weight, Matrix bias, Activation activation,
                      Matrix out) override;
  void RmsNorm(Matrix x, Matrix weight, float eps, Matrix out) override;
  void AddRmsNorm(Matrix delta, Matrix weight, float eps, Matrix residual, Matrix out) override;
  void HeadRmsNorm(Matrix weight, float eps, int32_t head_dim, Matrix inout) override;
  void Add(Matrix delta, Matrix inout) override;
  void SiluMul(Matrix gate_up, Matrix out) override;
  void MatMulSiluMul(Matrix x, const Weight& weight, Matrix bias, Matrix gate_up,
                     Matrix out) override;
  void GatherRows(Matrix x, Matrix rows, Matrix out) override;
  void Copy(Matrix from, Matrix to) override;

 private:
  // Null, with an error, for another backend's weight.
  const PackedWeight* Packed(const Weight& weight, absl::string_view op);
  // Null, with an error of `op`, for operands that do not fit together.
  const PackedWeight* CheckProduct(const Matrix& x, const Weight& weight, const Matrix& bias,
                                   int64_t rows, absl::string_view op);
  // The product's operands as the weight's kernel wants them.
  ProductRows Prepare(const Matrix& x, const PackedWeight& weight, const Matrix& bias,
                      const Matrix& out);
  PanelKernel KernelOf(const PackedWeight& weight) const;
  // out = x * weight^T + bias, then `activate` where it is not null.
  void Multiply(const Matrix& x, const Weight& weight, const Matrix& bias,
                ActivationKernel activate, const Matrix& out, absl::string_view op);
  // x's rows rounded to bf16, [rows, padded cols], in rounded_.
  void RoundRows(const Matrix& x, int64_t padded_cols);

  CpuContext& context_;
  std::vector<BF16> rounded_;  // grows to the largest step
  std::vector<float> tiles_;   // [threads, kSiluTileFloats]
};

}  // namespace penstock
