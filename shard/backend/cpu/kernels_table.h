#pragma once

// All kernels over the vector of the translation unit that includes this, behind its vec_*.h.

// clang-format off
#include "shard/backend/cpu/kernel_table.h"
#include "shard/backend/cpu/kernels_elementwise.h"
#include "shard/backend/cpu/kernels_attention.h"  // uses the one before
#include "shard/backend/cpu/kernels_encoder.h"
#include "shard/backend/cpu/kernels_matmul.h"
#include "shard/backend/cpu/kernels_sampling.h"
// clang-format on

namespace penstock {
namespace {

constexpr KernelTable MakeKernelTable(const char* isa) {
  return {
      .isa = isa,
      .multiply_panel = {MultiplyPanel<float>, MultiplyPanel<F16>, MultiplyPanel<BF16>},
      .rms_norm = RmsNorm,
      .add_rms_norm = AddRmsNorm,
      .add = AddTo,
      .silu_mul = SiluMul,
      .rotate = Rotate,
      .highest_finite = HighestFinite,
      .weigh = Weigh,
      .gelu = Apply<Gelu>,
      .gelu_tanh = Apply<GeluTanh>,
      .relu = Apply<Relu>,
      .tanh = Apply<Tanh>,
      .layer_norm = LayerNorm,
      .add_layer_norm = AddLayerNorm,
      .mean_rows = MeanRows,
      .normalize_row = NormalizeRow,
      .write_kv = {WriteKv<float>, WriteKv<F16>, WriteKv<BF16>},
      .attend_chunk = {AttendChunk<float>, AttendChunk<F16>, AttendChunk<BF16>},
      .merge_part = MergePart,
      .finish_part = FinishPart,
  };
}

}  // namespace
}  // namespace penstock
