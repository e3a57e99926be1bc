#include <utility>

#include "absl/strings/str_cat.h"
#include "shard/base/status_macros.h"
#include "shard/model/decoder.h"

namespace penstock {

absl::StatusOr<std::unique_ptr<Model>> Decoder::Load(const ModelSpec& spec, const ModelPart& part,
                                                     int32_t max_context,
                                                     const WeightLoader& weights,
                                                     Backend& backend) {
  std::unique_ptr<Decoder> model(new Decoder(spec, part));
  ASSIGN_OR_RETURN(model->rope_, RopeTables::Make(spec.rope, spec.head_dim, max_context, backend));
  RETURN_IF_ERROR(model->LoadEnds(weights));
  for (int64_t i = part.layers.begin; i < part.layers.end; ++i) {
    ASSIGN_OR_RETURN(Block block,
                     model->LoadBlock(weights.Under(absl::StrCat("model.layers.", i))));
    block.attention.window = spec.windows.empty() ? 0 : spec.windows[static_cast<size_t>(i)];
    model->blocks_.push_back(std::move(block));
  }
  return model;
}

absl::Status Decoder::LoadEnds(const WeightLoader& weights) {
  constexpr const char* kTable = "model.embed_tokens.weight";
  if (part_.embeds) {
    ASSIGN_OR_RETURN(embedding_,
                     weights.SplitRows({{kTable, spec_.vocab, part_.vocab}}, spec_.hidden));
  }
  if (!part_.heads) return absl::OkStatus();
  ASSIGN_OR_RETURN(final_norm_,
                   weights.Vector({{"model.norm.weight", spec_.hidden, {0, spec_.hidden}}}));
  if (part_.shares_table(spec_)) return absl::OkStatus();
  const char* head = spec_.tied_embeddings ? kTable : "lm_head.weight";
  ASSIGN_OR_RETURN(head_, weights.SplitRows({{head, spec_.vocab, part_.vocab}}, spec_.hidden));
  return absl::OkStatus();
}

absl::StatusOr<Decoder::Block> Decoder::LoadBlock(const WeightLoader& weights) const {
  const Range all{0, spec_.hidden};
  Block block;
  block.attention = part_.attention;
  ASSIGN_OR_RETURN(block.attention_norm,
                   weights.Vector({{"input_layernorm.weight", spec_.hidden, all}}));
  ASSIGN_OR_RETURN(block.mlp_norm,
                   weights.Vector({{"post_attention_layernorm.weight", spec_.hidden, all}}));
  RETURN_IF_ERROR(LoadAttention(weights.Under("self_attn"), block));
  RETURN_IF_ERROR(LoadMlp(weights.Under("mlp"), block));
  return block;
}

absl::Status Decoder::LoadAttention(const WeightLoader& weights, Block& block) const {
  const int64_t q = int64_t{spec_.heads} * spec_.head_dim;
  const int64_t kv = int64_t{spec_.kv_heads} * spec_.head_dim;
  ASSIGN_OR_RETURN(block.qkv.weight, weights.SplitRows({{"q_proj.weight", q, part_.q},
                                                        {"k_proj.weight", kv, part_.kv},
                                                        {"v_proj.weight", kv, part_.kv}},
                                                       spec_.hidden));
  ASSIGN_OR_RETURN(block.out.weight, weights.SplitCols("o_proj.weight", spec_.hidden, q, part_.q));
  if (spec_.qkv_bias) {
    ASSIGN_OR_RETURN(block.qkv.bias, weights.Vector({{"q_proj.bias", q, part_.q},
                                                     {"k_proj.bias", kv, part_.kv},
                                                     {"v_proj.bias", kv, part_.kv}}));
  }
  if (spec_.attention_out_bias && part_.adds_bias) {
    ASSIGN_OR_RETURN(block.out.bias,
                     weights.Vector({{"o_proj.bias", spec_.hidden, {0, spec_.hidden}}}));
  }
  if (spec_.qk_norm) {
    const Range all{0, spec_.head_dim};
    ASSIGN_OR_RETURN(block.q_norm, weights.Vector({{"q_norm.weight", spec_.head_dim, all}}));
    ASSIGN_OR_RETURN(block.k_norm, weights.Vector({{"k_norm.weight", spec_.head_dim, all}}));
  }
  return absl::OkStatus();
}

absl::Status Decoder::LoadMlp(const WeightLoader& weights, Block& block) const {
  const int64_t width = spec_.intermediate;
  const Range mine = part_.intermediate;
  ASSIGN_OR_RETURN(block.gate_up.weight, weights.SplitRows({{"gate_proj.weight", width, mine},
                                                            {"up_proj.weight", width, mine}},
                                                           spec_.hidden));
  ASSIGN_OR_RETURN(block.down.weight,
                   weights.SplitCols("down_proj.weight", spec_.hidden, width, mine));
  if (spec_.mlp_bias) {
    ASSIGN_OR_RETURN(block.gate_up.bias, weights.Vector({{"gate_proj.bias", width, mine},
                                                         {"up_proj.bias", width, mine}}));
  }
  if (spec_.mlp_bias && part_.adds_bias) {
    ASSIGN_OR_RETURN(block.down.bias,
                     weights.Vector({{"down_proj.bias", spec_.hidden, {0, spec_.hidden}}}));
  }
  return absl::OkStatus();
}

}  // namespace penstock
