#include "shard/backend/cpu/dense.h"

#include <algorithm>
#include <cstring>

namespace penstock {

CpuDense::CpuDense(CpuContext& context)
    : context_(context), tiles_(static_cast<size_t>(context.pool->threads() * kSiluTileFloats)) {}

const PackedWeight* CpuDense::Packed(const Weight& weight, absl::string_view op) {
  const auto* packed = dynamic_cast<const PackedWeight*>(&weight);
  context_.Check(packed != nullptr, op, "the weight belongs to another backend");
  return context_.status.ok() ? packed : nullptr;
}

void CpuDense::Embed(const Weight& table, Matrix ids, int32_t first_id, Matrix out) {
  const PackedWeight* packed = Packed(table, "Embed");
  if (packed == nullptr || !context_.CheckMatrix(ids, 1, out.rows, DType::kI32, "Embed", "ids") ||
      !context_.CheckMatrix(out, out.rows, table.cols(), DType::kF32, "Embed", "out"))
    return;
  context_.ForRows(out.rows, out.cols * 8, [&](int64_t i) {
    const int64_t row = int64_t{ids.I32()[i]} - first_id;
    float* to = static_cast<float*>(out.At(i, 0));
    if (row >= 0 && row < packed->rows()) {
      packed->UnpackRow(row, to);
    } else {
      std::fill_n(to, out.cols, 0.0f);
    }
  });
}

const PackedWeight* CpuDense::CheckProduct(const Matrix& x, const Weight& weight,
                                           const Matrix& bias, int64_t rows, absl::string_view op) {
  const PackedWeight* packed = Packed(weight, op);
  const bool sound = packed != nullptr &&
                     context_.CheckMatrix(x, rows, weight.cols(), DType::kF32, op, "x") &&
                     (bias.data == nullptr ||
                      context_.CheckMatrix(bias, 1, weight.rows(), DType::kF32, op, "bias"));
  return sound ? packed : nullptr;
}

ProductRows CpuDense::Prepare(const Matrix& x, const PackedWeight& weight, const Matrix& bias,
                              const Matrix& out) {
  ProductRows product = {x.data, x.stride, x.rows, bias.F32(), out.F32(), out.stride};
  if (!weight.pairs()) return product;
  product.x_stride = (x.cols + 1) / 2 * 2;
  RoundRows(x, product.x_stride);
  product.x = rounded_.data();
  return product;
}

PanelKernel CpuDense::KernelOf(const PackedWeight& weight) const {
  if (weight.pairs()) return context_.isa.bf16_dot->multiply_panel;
  return Select(context_.kernels().multiply_panel, weight.dtype());
}

void CpuDense::Multiply(const Matrix& x, const Weight& weight, const Matrix& bias,
                        ActivationKernel activate, const Matrix& out, absl::string_view op) {
  const PackedWeight* packed = CheckProduct(x, weight, bias, out.rows, op);
  if (packed == nullptr ||
      !context_.CheckMatrix(out, x.rows, weight.rows(), DType::kF32, op, "out") || x.rows == 0)
    return;
  MultiplyPacked(Prepare(x, *packed, bias, out), *packed, KernelOf(*packed), activate,
                 *context_.pool);
}

void CpuDense::MatMul(Matrix x, const Weight& weight, Matrix bias, Matrix out) {
  Multiply(x, weight, bias, nullptr, out, "MatMul");
}

void CpuDense::MatMulActivate(Matrix x, const Weight& weight, Matrix bias, Activation activation,
                              Matrix out) {
  Multiply(x, weight, bias, context_.KernelOf(activation), out, "MatMulActivate");
}

void CpuDense::MatMulSiluMul(Matrix x, const Weight& weight, Matrix bias, Matrix gate_up,
                             Matrix out) {
  constexpr const char* kOp = "MatMulSiluMul";
  const PackedWeight* packed = CheckProduct(x, weight, bias, out.rows, kOp);
  if (packed == nullptr ||
      !context_.CheckMatrix(gate_up, x.rows, weight.rows(), DType::kF32, kOp, "gate_up") ||
      !context_.CheckMatrix(out, x.rows, weight.rows() / 2, DType::kF32, kOp, "out") || x.rows == 0)
    return;
  if (weight.rows() % (2 * kPanelRows) != 0) {  // a panel has rows of both
    MatMul(x, weight, bias, gate_up);
    return SiluMul(gate_up, out);
  }
  MultiplySiluPacked(Prepare(x, *packed, bias, out), *packed, KernelOf(*packed),
                     context_.kernels().silu_mul, tiles_, *context_.pool);
}

void CpuDense::RoundRows(const Matrix& x, int64_t padded_cols) {
  const size_t size = static_cast<size_t>(x.rows * padded_cols);
  if (rounded_.size() < size) rounded_.resize(size);
  context_.ForRows(x.rows, x.cols, [&](int64_t i) {
    BF16* to = rounded_.data() + i * padded_cols;
    to[padded_cols - 1].bits = 0;
    context_.isa.bf16_dot->round_row(static_cast<const float*>(x.At(i, 0)), x.cols, to);
  });
}

void CpuDense::RmsNorm(Matrix x, Matrix weight, float eps, Matrix out) {
  if (!context_.CheckMatrix(x, out.rows, out.cols, DType::kF32, "RmsNorm", "x") ||
      !context_.CheckMatrix(out, x.rows, x.cols, DType::kF32, "RmsNorm", "out") ||
      !context_.CheckMatrix(weight, 1, x.cols, DType::kF32, "RmsNorm", "weight"))
    return;
  context_.ForRows(x.rows, x.cols, [&](int64_t i) {
    context_.kernels().rms_norm(static_cast<const float*>(x.At(i, 0)), weight.F32(), eps, x.cols,
                                static_cast<float*>(out.At(i, 0)));
  });
}

void CpuDense::AddRmsNorm(Matrix delta, Matrix weight, float eps, Matrix residual, Matrix out) {
  const int64_t rows = residual.rows, cols = residual.cols;
  if (!context_.CheckMatrix(residual, rows, cols, DType::kF32, "AddRmsNorm", "residual") ||
      !context_.CheckMatrix(delta, rows, cols, DType::kF32, "AddRmsNorm", "delta") ||
      !context_.CheckMatrix(out, rows, cols, DType::kF32, "AddRmsNorm", "out") ||
      !context_.CheckMatrix(weight, 1, cols, DType::kF32, "AddRmsNorm", "weight"))
    return;
  context_.ForRows(rows, cols, [&](int64_t i) {
    context_.kernels().add_rms_norm(static_cast<const float*>(delta.At(i, 0)), weight.F32(), eps,
                                    cols, static_cast<float*>(residual.At(i, 0)),
                                    static_cast<float*>(out.At(i, 0)));
  });
}

void CpuDense::HeadRmsNorm(Matrix weight, float eps, int32_t head_dim, Matrix inout) {
  if (!context_.Check(head_dim > 0 && inout.cols % head_dim == 0, "HeadRmsNorm", inout.cols,
                      " columns are no multiple of head_dim ", head_dim) ||
      !context_.CheckMatrix(inout, inout.rows, inout.cols, DType::kF32, "HeadRmsNorm", "inout") ||
      !context_.CheckMatrix(weight, 1, head_dim, DType::kF32, "HeadRmsNorm", "weight"))
    return;
  context_.ForRows(inout.rows, inout.cols, [&](int64_t i) {
    for (int64_t c = 0; c < inout.cols; c += head_dim) {
      float* head = static_cast<float*>(inout.At(i, c));
      context_.kernels().rms_norm(head, weight.F32(), eps, head_dim, head);
    }
  });
}

void CpuDense::Add(Matrix delta, Matrix inout) {
  if (!context_.CheckMatrix(delta, inout.rows, inout.cols, DType::kF32, "Add", "delta") ||
      !context_.CheckMatrix(inout, delta.rows, delta.cols, DType::kF32, "Add", "inout"))
    return;
  context_.ForRows(inout.rows, inout.cols, [&](int64_t i) {
    context_.kernels().add(static_cast<const float*>(delta.At(i, 0)), inout.cols,
                           static_cast<float*>(inout.At(i, 0)));
  });
}

void CpuDense::SiluMul(Matrix gate_up, Matrix out) {
  if (!context_.CheckMatrix(gate_up, out.rows, out.cols * 2, DType::kF32, "SiluMul", "gate_up") ||
      !context_.CheckMatrix(out, gate_up.rows, out.cols, DType::kF32, "SiluMul", "out"))
    return;
  context_.ForRows(out.rows, out.cols * 4, [&](int64_t i) {
    context_.kernels().silu_mul(static_cast<const float*>(gate_up.At(i, 0)),
                                static_cast<const float*>(gate_up.At(i, out.cols)), out.cols,
                                static_cast<float*>(out.At(i, 0)));
  });
}

void CpuDense::GatherRows(Matrix x, Matrix rows, Matrix out) {
  if (!context_.CheckMatrix(x, x.rows, out.cols, x.dtype, "GatherRows", "x") ||
      !context_.CheckMatrix(rows, 1, out.rows, DType::kI32, "GatherRows", "rows") ||
      !context_.CheckMatrix(out, out.rows, x.cols, x.dtype, "GatherRows", "out"))
    return;
  for (int64_t i = 0; i < out.rows; ++i) {
    const int64_t row = rows.I32()[i];
    if (!context_.Check(row >= 0 && row < x.rows, "GatherRows", "row ", row, " of ", x.rows))
      return;
    std::memcpy(out.At(i, 0), x.At(row, 0), static_cast<size_t>(x.cols) * SizeOf(x.dtype));
  }
}

void CpuDense::Copy(Matrix from, Matrix to) {
  if (!context_.CheckMatrix(from, to.rows, to.cols, to.dtype, "Copy", "from") ||
      !context_.CheckMatrix(to, from.rows, from.cols, from.dtype, "Copy", "to"))
    return;
  if (to.cols == 0) return;
  context_.ForRows(to.rows, to.cols, [&](int64_t i) {
    std::memcpy(to.At(i, 0), from.At(i, 0), static_cast<size_t>(to.cols) * SizeOf(to.dtype));
  });
}

}  // namespace penstock
