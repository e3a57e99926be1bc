#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/base/range.h"
#include "shard/model/model_spec.h"

namespace penstock {

struct ShardPlanOptions {
  int tensor = 1;
  int pipeline = 1;
  // Layers of each stage, first to last; empty: such that the slowest stage is as close to the mean
  // as can be in the phase that the split suits worse, prefill or decode. The LM head takes time
  // when decoding only.
  std::vector<int> layers{};
};

// How a model is cut: `tensor` ranks share each layer, `pipeline` stages share the list of layers.
// Rank r is tensor rank r % tensor of stage r / tensor. Pure arithmetic, so every rank computes the
// same plan.
class ShardPlan {
 public:
  // InvalidArgument for a degree that cannot work, naming the ones that can.
  static absl::StatusOr<ShardPlan> Create(const ModelSpec& spec, const ShardPlanOptions& options);

  int ranks() const { return tensor_ * pipeline_; }
  int tensor() const { return tensor_; }
  int pipeline() const { return pipeline_; }
  int stage(int rank) const { return rank / tensor_; }
  int tensor_rank(int rank) const { return rank % tensor_; }
  bool first_stage(int rank) const { return stage(rank) == 0; }
  bool last_stage(int rank) const { return stage(rank) == pipeline_ - 1; }
  int driver() const { return (pipeline_ - 1) * tensor_; }  // the rank that samples

  Range Layers(int stage) const { return layers_[static_cast<size_t>(stage)]; }
  // By tensor rank, earlier ranks the larger parts. Together they cover everything without overlap,
  // except KV heads: a rank holds those that its query heads need, so neighbours may hold the same
  // one.
  Range Heads(int tensor_rank) const { return heads_[static_cast<size_t>(tensor_rank)]; }
  Range KvHeads(int tensor_rank) const { return kv_heads_[static_cast<size_t>(tensor_rank)]; }
  Range Intermediate(int tensor_rank) const {
    return intermediate_[static_cast<size_t>(tensor_rank)];
  }
  // Vocabulary rows. All but the last have the same size, `vocab_part()`, a multiple of 32 unless
  // the vocabulary is too small; the last has at least one.
  Range Vocab(int tensor_rank) const { return vocab_[static_cast<size_t>(tensor_rank)]; }
  int64_t vocab_part() const { return vocab_part_; }

 private:
  int tensor_ = 1, pipeline_ = 1;
  int64_t vocab_part_ = 0;
  std::vector<Range> layers_, heads_, kv_heads_, intermediate_, vocab_;
};

}  // namespace penstock
