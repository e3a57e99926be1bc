#include "shard/model/decoder_footprint.h"

#include <algorithm>

#include "shard/model/rope.h"

namespace penstock {
namespace {

// Vectors of one layer, in floats: norms and biases.
int64_t LayerVectorFloats(const ModelSpec& spec, const ModelPart& part) {
  int64_t floats = 2 * part.hidden;
  if (spec.qkv_bias) floats += part.qkv_rows();
  if (spec.qk_norm) floats += 2 * spec.head_dim;
  if (spec.attention_out_bias && part.adds_bias) floats += part.hidden;
  if (spec.mlp_bias) floats += 2 * part.intermediate.size();
  if (spec.mlp_bias && part.adds_bias) floats += part.hidden;
  return floats;
}

}  // namespace

BranchScratch::BranchScratch(const ModelPart& part, int64_t rows, Scratch& from)
    : normed(from.Take(rows, part.hidden)), delta(from.Take(rows, part.hidden)) {}

AttentionScratch::AttentionScratch(const ModelPart& part, int64_t rows, Scratch& from)
    : qkv(from.Take(rows, part.qkv_rows())), mixed(from.Take(rows, part.q.size())) {}

MlpScratch::MlpScratch(const ModelPart& part, int64_t rows, Scratch& from)
    : gate_up(from.Take(rows, 2 * part.intermediate.size())),
      activated(from.Take(rows, part.intermediate.size())) {}

LogitsScratch::LogitsScratch(const ModelPart& part, int64_t samples, Scratch& from)
    : picked(from.Take(samples, part.hidden)), normed(from.Take(samples, part.hidden)) {
  if (part.tensor == 1) return;
  mine = from.Take(samples, part.vocab_part);
  all = from.Take(samples * part.tensor, part.vocab_part);
}

int64_t ScratchFloats(const ModelPart& part, int64_t rows, int64_t samples) {
  Scratch attention, logits;
  const BranchScratch branch(part, rows, attention);
  Scratch mlp = attention;
  const AttentionScratch attention_phase(part, rows, attention);
  const MlpScratch mlp_phase(part, rows, mlp);
  const LogitsScratch logits_phase(part, samples, logits);
  return std::max({attention.used(), mlp.used(), part.heads ? logits.used() : 0});
}

int64_t WeightBytes(const ModelSpec& spec, const ModelPart& part, DType dtype, int32_t max_context,
                    const Backend& backend) {
  const auto weight = [&](int64_t rows, int64_t cols) {
    return backend.WeightBytes(rows, cols, dtype);
  };
  constexpr int64_t kFloat = sizeof(float);
  const int64_t intermediate = part.intermediate.size();
  const int64_t layer = weight(part.qkv_rows(), part.hidden) + weight(part.hidden, part.q.size()) +
                        weight(2 * intermediate, part.hidden) + weight(part.hidden, intermediate) +
                        LayerVectorFloats(spec, part) * kFloat;
  const int64_t table = weight(part.vocab.size(), part.hidden);
  int64_t bytes = part.layers.size() * layer + RopeTables::Bytes(spec.head_dim, max_context);
  if (part.embeds) bytes += table;
  if (part.heads) bytes += part.hidden * kFloat + (part.shares_table(spec) ? 0 : table);
  return bytes;
}

}  // namespace penstock
