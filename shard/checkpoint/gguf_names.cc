#include "shard/checkpoint/gguf_names.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace penstock {
namespace {

struct Renaming {
  absl::string_view gguf, hugging_face;
};

constexpr Renaming kOutside[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};

constexpr Renaming kInBlock[] = {
    {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"}};

template <size_t n>
absl::string_view Rename(const Renaming (&table)[n], absl::string_view module) {
  for (const Renaming& entry : table)
    if (entry.gguf == module) return entry.hugging_face;
  return "";
}

// Takes "17." off the front and returns "17"; empty when there is no such thing.
absl::string_view ConsumeNumber(absl::string_view& text) {
  size_t digits = 0;
  while (digits < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[digits])))
    ++digits;
  if (digits == 0 || digits == text.size() || text[digits] != '.') return "";
  const absl::string_view number = text.substr(0, digits);
  text.remove_prefix(digits + 1);
  return number;
}

}  // namespace

std::string HuggingFaceName(absl::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == absl::string_view::npos) return std::string(name);
  const absl::string_view parameter = name.substr(dot);  // ".weight", ".bias"
  absl::string_view module = name.substr(0, dot);
  if (parameter != ".weight" && parameter != ".bias") return std::string(name);
  if (!absl::ConsumePrefix(&module, "blk.")) {
    const absl::string_view renamed = Rename(kOutside, module);
    return renamed.empty() ? std::string(name) : absl::StrCat(renamed, parameter);
  }
  const absl::string_view layer = ConsumeNumber(module);
  const absl::string_view renamed = layer.empty() ? layer : Rename(kInBlock, module);
  if (renamed.empty()) return std::string(name);
  return absl::StrCat("model.layers.", layer, ".", renamed, parameter);
}

}  // namespace penstock
