#include "shard/model/bert_encoder_footprint.h"

#include <algorithm>

namespace penstock {
namespace {

// Vectors of one layer, in floats: norms and biases.
int64_t LayerVectorFloats(const ModelPart& part) {
  const int64_t norms = 4 * part.hidden, summed = part.adds_bias ? 2 * part.hidden : 0;
  return norms + summed + part.qkv_rows() + part.intermediate.size();
}

}  // namespace

EncoderAttentionScratch::EncoderAttentionScratch(const ModelPart& part, int64_t rows, Scratch& from)
    : qkv(from.Take(rows, part.qkv_rows())), mixed(from.Take(rows, part.q.size())) {}

bool HasEncoderHead(const ModelPart& part) { return part.heads && part.adds_bias; }

int64_t EncoderScratchFloats(const ModelPart& part, int64_t rows, int64_t seqs) {
  Scratch attention, head;
  attention.Take(rows, part.hidden);
  Scratch mlp = attention;
  const EncoderAttentionScratch attention_phase(part, rows, attention);
  mlp.Take(rows, part.intermediate.size());
  head.Take(seqs, part.hidden);
  head.Take(seqs, part.hidden);
  return std::max({attention.used(), mlp.used(), HasEncoderHead(part) ? head.used() : 0});
}

int64_t EncoderWeightBytes(const ModelSpec& spec, const ModelPart& part, DType dtype,
                           const Backend& backend) {
  constexpr int64_t kFloat = sizeof(float);
  const auto weight = [&](int64_t rows, int64_t cols) {
    return backend.WeightBytes(rows, cols, dtype);
  };
  const EncoderSpec& encoder = *spec.encoder;
  const int64_t hidden = part.hidden, inner = part.intermediate.size();
  const int64_t layer = weight(part.qkv_rows(), hidden) + weight(hidden, part.q.size()) +
                        weight(inner, hidden) + weight(hidden, inner) +
                        LayerVectorFloats(part) * kFloat;
  int64_t bytes = part.layers.size() * layer;
  if (part.embeds) {
    bytes +=
        weight(part.vocab.size(), hidden) + weight(encoder.positions, hidden) + 2 * hidden * kFloat;
    if (encoder.token_types > 0) bytes += weight(encoder.token_types, hidden);
  }
  if (HasEncoderHead(part) && encoder.pooling == Pooling::kClassify) {
    const auto labels = static_cast<int64_t>(encoder.labels.size());
    bytes += weight(hidden, hidden) + weight(labels, hidden) + (hidden + labels) * kFloat;
  }
  return bytes;
}

}  // namespace penstock
