#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/model/encoder_families.h"
#include "shard/model/model.h"
#include "shard/model/model_part.h"
#include "shard/model/scratch.h"
#include "shard/model/weight_loader.h"

namespace penstock {

// The post-norm encoder of BERT (Devlin et al. 2018), RoBERTa, XLM-RoBERTa and DistilBERT;
// ModelSpec says which, a row of the encoder families how its tensors are called. One-shot: every
// row attends to all rows of its own sequence, and nothing is kept between steps.
class BertEncoder final : public Model {
 public:
  // `weights` reads the whole checkpoint's names.
  static absl::StatusOr<std::unique_ptr<Model>> Load(const ModelSpec& spec, const ModelPart& part,
                                                     const WeightLoader& weights);

  void Embed(ForwardContext& ctx, Matrix x) const override;
  void Layer(ForwardContext& ctx, int index, KvCache* cache, Matrix x) const override;
  void Head(ForwardContext& ctx, Matrix x, Matrix out) const override;
  int layers() const override { return static_cast<int>(blocks_.size()); }
  const AttentionShape& attention_shape() const override { return part_.attention; }

 private:
  struct Norm {
    OwnedMatrix weight, bias;
  };
  struct Block {
    Linear qkv, attention_out;
    Norm attention_norm;
    Linear up, down;
    Norm mlp_norm;
  };

  BertEncoder(const ModelSpec& spec, const ModelPart& part);
  absl::Status LoadEmbeddings(const WeightLoader& base);
  absl::Status LoadHead(const WeightLoader& weights, const WeightLoader& base);
  absl::StatusOr<Block> LoadBlock(const WeightLoader& weights) const;
  absl::StatusOr<Norm> LoadNorm(const WeightLoader& weights, absl::string_view name) const;
  // All of a matrix and its bias.
  absl::StatusOr<Linear> LoadWhole(const WeightLoader& weights, absl::string_view name,
                                   int64_t rows) const;
  // This rank's columns; the bias on one rank of the group.
  absl::StatusOr<Linear> LoadSummed(const WeightLoader& weights, absl::string_view name,
                                    int64_t cols, Range mine) const;

  void Attention(ForwardContext& ctx, const Block& block, Matrix x, Scratch scratch,
                 Matrix delta) const;
  void Mlp(ForwardContext& ctx, const Block& block, Matrix x, Scratch scratch, Matrix delta) const;
  void Classify(ForwardContext& ctx, Matrix x, Matrix scores) const;
  // x = LayerNorm(x + delta)
  void AddNorm(ForwardContext& ctx, Matrix delta, const Norm& norm, Matrix x) const;

  const ModelSpec spec_;
  const EncoderSpec encoder_;
  const EncoderFamily& family_;
  const ModelPart part_;
  std::unique_ptr<Weight> tokens_, positions_, token_types_;  // embeddings; the last may be absent
  Norm embedding_norm_;
  Linear head_dense_, head_out_;
  std::vector<Block> blocks_;
};

}  // namespace penstock
