#pragma once

#include <cstdint>

#include "shard/backend/backend.h"
#include "shard/base/range.h"
#include "shard/model/model_spec.h"
#include "shard/model/scratch.h"
#include "shard/model/shard_plan.h"

namespace penstock {

// One rank's part of a decoder, in rows and columns: what it loads and how wide its matrices are.
struct DecoderPart {
  DecoderPart(const ModelSpec& spec, const ShardPlan& plan, int rank);

  Range layers;        // of the model's
  Range q, kv;         // rows of q_proj, and of k_proj and v_proj
  Range intermediate;  // rows of gate_proj and up_proj
  Range vocab;         // rows of the embedding and of the head
  int64_t vocab_part;  // columns of logits that each rank of the group fills
  int64_t hidden;
  int tensor;          // ranks that share a layer
  bool adds_bias;      // of those summed over the group (o, down): one rank adds them
  bool embeds, heads;  // has the embedding, has the final norm and the head
  AttentionShape attention;

  int64_t qkv_rows() const { return q.size() + 2 * kv.size(); }
  bool shares_table(const ModelSpec& spec) const { return spec.tied_embeddings && embeds && heads; }
};

// What a layer and the head compute into. delta is the branch's contribution to the residual
// stream.
struct AttentionScratch {
  AttentionScratch(const DecoderPart& part, int64_t rows, Scratch& from);
  Matrix qkv, mixed;
};
struct MlpScratch {
  MlpScratch(const DecoderPart& part, int64_t rows, Scratch& from);
  Matrix gate_up, activated;
};
struct BranchScratch {
  BranchScratch(const DecoderPart& part, int64_t rows, Scratch& from);
  Matrix normed, delta;
};
struct LogitsScratch {
  LogitsScratch(const DecoderPart& part, int64_t samples, Scratch& from);
  Matrix picked, normed;
  Matrix mine, all;  // empty when one rank has the whole head
};

// Floats of the largest phase for `rows` tokens and `samples` rows of logits.
int64_t ScratchFloats(const DecoderPart& part, int64_t rows, int64_t samples);

// Bytes of the weights, vectors and rotary tables that loading allocates.
int64_t WeightBytes(const ModelSpec& spec, const DecoderPart& part, DType dtype,
                    int32_t max_context, const Backend& backend);

}  // namespace penstock
