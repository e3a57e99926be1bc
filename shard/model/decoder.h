#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/model/decoder_footprint.h"
#include "shard/model/model.h"
#include "shard/model/rope.h"
#include "shard/model/weight_loader.h"

namespace penstock {

// The pre-norm, grouped-query, gated-MLP decoder that Llama, Mistral, Qwen2 and Qwen3 share;
// ModelSpec says which.
class Decoder final : public Model {
 public:
  // `weights` reads the whole checkpoint's names; `max_context` is the rotary tables' length.
  static absl::StatusOr<std::unique_ptr<Model>> Load(const ModelSpec& spec, const ModelPart& part,
                                                     int32_t max_context,
                                                     const WeightLoader& weights, Backend& backend);

  void Embed(ForwardContext& ctx, Matrix x) const override;
  void Layer(ForwardContext& ctx, int index, KvCache* cache, Matrix x) const override;
  void Head(ForwardContext& ctx, Matrix x, Matrix logits) const override;
  int layers() const override { return static_cast<int>(blocks_.size()); }
  const AttentionShape& attention_shape() const override { return part_.attention; }

 private:
  struct Block {
    OwnedMatrix attention_norm, mlp_norm;
    OwnedMatrix q_norm, k_norm;  // empty unless qk_norm
    Linear qkv, out;
    Linear gate_up, down;
    AttentionShape attention;  // with this layer's window
  };

  Decoder(const ModelSpec& spec, const ModelPart& part) : spec_(spec), part_(part) {}
  absl::Status LoadEnds(const WeightLoader& weights);
  absl::StatusOr<Block> LoadBlock(const WeightLoader& weights) const;
  absl::Status LoadAttention(const WeightLoader& weights, Block& block) const;
  absl::Status LoadMlp(const WeightLoader& weights, Block& block) const;

  void Attention(ForwardContext& ctx, const Block& block, KvCache& cache, Matrix normed,
                 Scratch scratch, Matrix delta) const;
  void Mlp(ForwardContext& ctx, const Block& block, Matrix normed, Scratch scratch,
           Matrix delta) const;
  const Weight& head() const { return head_ != nullptr ? *head_ : *embedding_; }

  const ModelSpec spec_;
  const ModelPart part_;
  RopeTables rope_;
  std::unique_ptr<Weight> embedding_,
      head_;  // no head_: the embedding is the head, or no last stage
  OwnedMatrix final_norm_;
  std::vector<Block> blocks_;
};

}  // namespace penstock
