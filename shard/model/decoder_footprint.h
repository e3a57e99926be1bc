#pragma once

#include <cstdint>

#include "shard/backend/backend.h"
#include "shard/model/model_part.h"
#include "shard/model/model_spec.h"
#include "shard/model/scratch.h"

namespace penstock {

// What a layer and the head compute into. delta is the branch's contribution to the residual
// stream.
struct AttentionScratch {
  AttentionScratch(const ModelPart& part, int64_t rows, Scratch& from);
  Matrix qkv, mixed;
};
struct MlpScratch {
  MlpScratch(const ModelPart& part, int64_t rows, Scratch& from);
  Matrix gate_up, activated;
};
struct BranchScratch {
  BranchScratch(const ModelPart& part, int64_t rows, Scratch& from);
  Matrix normed, delta;
};
struct LogitsScratch {
  LogitsScratch(const ModelPart& part, int64_t samples, Scratch& from);
  Matrix picked, normed;
  Matrix mine, all;  // empty when one rank has the whole head
};

// Floats of the largest phase for `rows` tokens and `samples` rows of logits.
int64_t ScratchFloats(const ModelPart& part, int64_t rows, int64_t samples);

// Bytes of the weights, vectors and rotary tables that loading allocates.
int64_t WeightBytes(const ModelSpec& spec, const ModelPart& part, DType dtype, int32_t max_context,
                    const Backend& backend);

}  // namespace penstock
