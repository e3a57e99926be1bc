#include "shard/backend/cpu/encoder.h"

namespace penstock {

void CpuEncoder::LayerNorm(Matrix x, Matrix weight, Matrix bias, float eps, Matrix out) {
  if (!context_.CheckMatrix(x, out.rows, out.cols, DType::kF32, "LayerNorm", "x") ||
      !context_.CheckMatrix(out, x.rows, x.cols, DType::kF32, "LayerNorm", "out") ||
      !context_.CheckMatrix(weight, 1, x.cols, DType::kF32, "LayerNorm", "weight") ||
      !context_.CheckMatrix(bias, 1, x.cols, DType::kF32, "LayerNorm", "bias"))
    return;
  context_.ForRows(x.rows, x.cols * 2, [&](int64_t i) {
    context_.kernels().layer_norm(static_cast<const float*>(x.At(i, 0)), weight.F32(), bias.F32(),
                                  eps, x.cols, static_cast<float*>(out.At(i, 0)));
  });
}

void CpuEncoder::AddLayerNorm(Matrix delta, Matrix weight, Matrix bias, float eps, Matrix inout) {
  const int64_t rows = inout.rows, cols = inout.cols;
  if (!context_.CheckMatrix(inout, rows, cols, DType::kF32, "AddLayerNorm", "inout") ||
      !context_.CheckMatrix(delta, rows, cols, DType::kF32, "AddLayerNorm", "delta") ||
      !context_.CheckMatrix(weight, 1, cols, DType::kF32, "AddLayerNorm", "weight") ||
      !context_.CheckMatrix(bias, 1, cols, DType::kF32, "AddLayerNorm", "bias"))
    return;
  context_.ForRows(rows, cols * 2, [&](int64_t i) {
    context_.kernels().add_layer_norm(static_cast<const float*>(delta.At(i, 0)), weight.F32(),
                                      bias.F32(), eps, cols, static_cast<float*>(inout.At(i, 0)));
  });
}

void CpuEncoder::Activate(Activation activation, Matrix inout) {
  if (!context_.CheckMatrix(inout, inout.rows, inout.cols, DType::kF32, "Activate", "inout"))
    return;
  const ActivationKernel kernel = context_.KernelOf(activation);
  context_.ForRows(inout.rows, inout.cols * 4,
                   [&](int64_t i) { kernel(inout.cols, static_cast<float*>(inout.At(i, 0))); });
}

void CpuEncoder::Attention(Matrix qkv, const DeviceBatch& batch, const AttentionShape& shape,
                           Matrix out) {
  attention_.Run(qkv, batch, shape, out);
}

void CpuEncoder::MeanRows(Matrix x, Matrix seq_begin, Matrix out) {
  if (!context_.CheckMatrix(x, x.rows, out.cols, DType::kF32, "MeanRows", "x") ||
      !context_.CheckMatrix(out, out.rows, x.cols, DType::kF32, "MeanRows", "out") ||
      !context_.CheckMatrix(seq_begin, 1, out.rows + 1, DType::kI32, "MeanRows", "seq_begin"))
    return;
  const int32_t* begin = seq_begin.I32();
  for (int64_t s = 0; s < out.rows; ++s)
    if (!context_.Check(begin[s] >= 0 && begin[s] < begin[s + 1] && begin[s + 1] <= x.rows,
                        "MeanRows", "rows ", begin[s], "..", begin[s + 1], " of ", x.rows))
      return;
  const int64_t numbers = out.rows == 0 ? 0 : x.rows / out.rows * x.cols;  // of each sequence
  context_.ForRows(out.rows, numbers, [&](int64_t s) {
    context_.kernels().mean_rows(static_cast<const float*>(x.At(begin[s], 0)), x.stride,
                                 begin[s + 1] - begin[s], x.cols,
                                 static_cast<float*>(out.At(s, 0)));
  });
}

void CpuEncoder::NormalizeRows(Matrix inout) {
  if (!context_.CheckMatrix(inout, inout.rows, inout.cols, DType::kF32, "NormalizeRows", "inout"))
    return;
  context_.ForRows(inout.rows, inout.cols * 2, [&](int64_t i) {
    context_.kernels().normalize_row(inout.cols, static_cast<float*>(inout.At(i, 0)));
  });
}

}  // namespace penstock
