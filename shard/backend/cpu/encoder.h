#pragma once

#include "shard/backend/cpu/cpu_context.h"
#include "shard/backend/cpu/self_attention.h"
#include "shard/backend/ops.h"

namespace penstock {

// EncoderOps on the CPU. Work happens before a call returns; results do not depend on the number of
// threads.
class CpuEncoder : public EncoderOps {
 public:
  explicit CpuEncoder(CpuContext& context) : context_(context), attention_(context) {}

  void LayerNorm(Matrix x, Matrix weight, Matrix bias, float eps, Matrix out) override;
  void AddLayerNorm(Matrix delta, Matrix weight, Matrix bias, float eps, Matrix inout) override;
  void Activate(Activation activation, Matrix inout) override;
  void Attention(Matrix qkv, const DeviceBatch& batch, const AttentionShape& shape,
                 Matrix out) override;
  void MeanRows(Matrix x, Matrix seq_begin, Matrix out) override;
  void NormalizeRows(Matrix inout) override;

 private:
  CpuContext& context_;
  SelfAttention attention_;
};

}  // namespace penstock
