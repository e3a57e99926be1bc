#include <utility>

#include "absl/strings/str_cat.h"
#include "shard/base/status_macros.h"
#include "shard/model/bert_encoder.h"
#include "shard/model/bert_encoder_footprint.h"

namespace penstock {
namespace {

constexpr const char* kTable = "embeddings.word_embeddings.weight";

std::string WeightOf(absl::string_view name) { return absl::StrCat(name, ".weight"); }
std::string BiasOf(absl::string_view name) { return absl::StrCat(name, ".bias"); }

// Where the base model's names begin: at once, or behind the family's name or "model".
WeightLoader BaseOf(const WeightLoader& weights, const EncoderFamily& family) {
  for (const char* prefix : {family.names.base, "model"}) {
    const WeightLoader base = weights.Under(prefix);
    if (base.Has(kTable)) return base;
  }
  return weights;
}

}  // namespace

BertEncoder::BertEncoder(const ModelSpec& spec, const ModelPart& part)
    : spec_(spec),
      encoder_(*spec.encoder),
      family_(*FindEncoderFamily(spec.architecture)),
      part_(part) {}

absl::StatusOr<std::unique_ptr<Model>> BertEncoder::Load(const ModelSpec& spec,
                                                         const ModelPart& part,
                                                         const WeightLoader& weights) {
  const EncoderFamily* family = FindEncoderFamily(spec.architecture);
  if (family == nullptr)
    return absl::InvalidArgumentError(absl::StrCat("no encoder is called ", spec.architecture));
  std::unique_ptr<BertEncoder> model(new BertEncoder(spec, part));
  const WeightLoader base = BaseOf(weights, *family);
  if (part.embeds) RETURN_IF_ERROR(model->LoadEmbeddings(base));
  for (int64_t i = part.layers.begin; i < part.layers.end; ++i) {
    ASSIGN_OR_RETURN(Block block,
                     model->LoadBlock(base.Under(absl::StrCat(family->names.layers, ".", i))));
    model->blocks_.push_back(std::move(block));
  }
  if (HasEncoderHead(part) && spec.encoder->pooling == Pooling::kClassify)
    RETURN_IF_ERROR(model->LoadHead(weights, base));
  return model;
}

absl::Status BertEncoder::LoadEmbeddings(const WeightLoader& base) {
  ASSIGN_OR_RETURN(tokens_, base.SplitRows({{kTable, spec_.vocab, part_.vocab}}, spec_.hidden));
  const auto load = [&](const char* name, int64_t rows) {
    return base.SplitRows({{name, rows, {0, rows}}}, spec_.hidden);
  };
  ASSIGN_OR_RETURN(positions_, load("embeddings.position_embeddings.weight", encoder_.positions));
  if (encoder_.token_types > 0) {
    ASSIGN_OR_RETURN(token_types_,
                     load("embeddings.token_type_embeddings.weight", encoder_.token_types));
  }
  ASSIGN_OR_RETURN(embedding_norm_, LoadNorm(base, "embeddings.LayerNorm"));
  return absl::OkStatus();
}

absl::Status BertEncoder::LoadHead(const WeightLoader& weights, const WeightLoader& base) {
  const EncoderNames& names = family_.names;
  const bool within = base.Has(WeightOf(names.head_dense));
  ASSIGN_OR_RETURN(head_dense_, LoadWhole(within ? base : weights, names.head_dense, spec_.hidden));
  ASSIGN_OR_RETURN(head_out_, LoadWhole(weights, names.head_out, std::ssize(encoder_.labels)));
  return absl::OkStatus();
}

absl::StatusOr<BertEncoder::Block> BertEncoder::LoadBlock(const WeightLoader& weights) const {
  const EncoderNames& names = family_.names;
  const int64_t width = spec_.hidden;
  const Range inner = part_.intermediate;
  Block block;
  ASSIGN_OR_RETURN(block.qkv.weight, weights.SplitRows({{WeightOf(names.query), width, part_.q},
                                                        {WeightOf(names.key), width, part_.kv},
                                                        {WeightOf(names.value), width, part_.kv}},
                                                       width));
  ASSIGN_OR_RETURN(block.qkv.bias, weights.Vector({{BiasOf(names.query), width, part_.q},
                                                   {BiasOf(names.key), width, part_.kv},
                                                   {BiasOf(names.value), width, part_.kv}}));
  ASSIGN_OR_RETURN(block.attention_out, LoadSummed(weights, names.attention_out, width, part_.q));
  ASSIGN_OR_RETURN(block.attention_norm, LoadNorm(weights, names.attention_norm));
  ASSIGN_OR_RETURN(block.up.weight,
                   weights.SplitRows({{WeightOf(names.up), spec_.intermediate, inner}}, width));
  ASSIGN_OR_RETURN(block.up.bias, weights.Vector({{BiasOf(names.up), spec_.intermediate, inner}}));
  ASSIGN_OR_RETURN(block.down, LoadSummed(weights, names.down, spec_.intermediate, inner));
  ASSIGN_OR_RETURN(block.mlp_norm, LoadNorm(weights, names.mlp_norm));
  return block;
}

// Checkpoints from before 2020 say gamma and beta.
absl::StatusOr<BertEncoder::Norm> BertEncoder::LoadNorm(const WeightLoader& weights,
                                                        absl::string_view name) const {
  const bool old = weights.Has(absl::StrCat(name, ".gamma"));
  const Range all{0, spec_.hidden};
  Norm norm;
  ASSIGN_OR_RETURN(
      norm.weight,
      weights.Vector({{absl::StrCat(name, old ? ".gamma" : ".weight"), spec_.hidden, all}}));
  ASSIGN_OR_RETURN(
      norm.bias,
      weights.Vector({{absl::StrCat(name, old ? ".beta" : ".bias"), spec_.hidden, all}}));
  return norm;
}

absl::StatusOr<Linear> BertEncoder::LoadWhole(const WeightLoader& weights, absl::string_view name,
                                              int64_t rows) const {
  Linear linear;
  ASSIGN_OR_RETURN(linear.weight,
                   weights.SplitRows({{WeightOf(name), rows, {0, rows}}}, spec_.hidden));
  ASSIGN_OR_RETURN(linear.bias, weights.Vector({{BiasOf(name), rows, {0, rows}}}));
  return linear;
}

absl::StatusOr<Linear> BertEncoder::LoadSummed(const WeightLoader& weights, absl::string_view name,
                                               int64_t cols, Range mine) const {
  Linear linear;
  ASSIGN_OR_RETURN(linear.weight, weights.SplitCols(WeightOf(name), spec_.hidden, cols, mine));
  if (part_.adds_bias) {
    ASSIGN_OR_RETURN(linear.bias,
                     weights.Vector({{BiasOf(name), spec_.hidden, {0, spec_.hidden}}}));
  }
  return linear;
}

}  // namespace penstock
