#pragma once

#include <cstdint>

#include "shard/backend/ops.h"
#include "shard/base/range.h"
#include "shard/model/model_spec.h"
#include "shard/model/shard_plan.h"

namespace penstock {

// One rank's part of a transformer, in rows and columns: what it loads and how wide its matrices
// are.
struct ModelPart {
  ModelPart(const ModelSpec& spec, const ShardPlan& plan, int rank);

  Range layers;        // of the model's
  Range q, kv;         // rows of the query projection, and of those of keys and values
  Range intermediate;  // rows of the MLP's first projections
  Range vocab;         // rows of the embedding and of the LM head
  int64_t vocab_part;  // columns of logits that each rank of the group fills
  int64_t hidden;
  int tensor;          // ranks that share a layer
  bool adds_bias;      // of products summed over the group: one rank adds them
  bool embeds, heads;  // has the embedding, has what turns the last layer's rows into results
  AttentionShape attention;

  int64_t qkv_rows() const { return q.size() + 2 * kv.size(); }
  bool shares_table(const ModelSpec& spec) const { return spec.tied_embeddings && embeds && heads; }
};

}  // namespace penstock
