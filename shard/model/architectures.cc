#include "shard/model/architectures.h"

#include "absl/strings/str_cat.h"

namespace penstock {
namespace {

// The defaults are those of the families' configuration classes in the reference implementation.
constexpr Architecture kArchitectures[] = {
    // Llama 1, 2, 3, SmolLM2 and everything that says it is a Llama.
    {.name = "llama",
     .class_name = "LlamaForCausalLM",
     .vocab = 32000,
     .hidden = 4096,
     .intermediate = 11008,
     .layers = 32,
     .heads = 32,
     .kv_heads = 0,
     .head_dim = 0,
     .max_context = 2048,
     .norm_eps = 1e-6f,
     .rope_theta = 10000.0f,
     .tied_embeddings = false,
     .bos = 1,
     .eos = 2,
     .qkv_bias = false,
     .attention_bias = true,
     .mlp_bias = true,
     .qk_norm = false,
     .windows = WindowRule::kNone,
     .window = 0,
     .window_from_layer = 0},
    {.name = "mistral",
     .class_name = "MistralForCausalLM",
     .vocab = 32000,
     .hidden = 4096,
     .intermediate = 14336,
     .layers = 32,
     .heads = 32,
     .kv_heads = 8,
     .head_dim = 0,
     .max_context = 131072,
     .norm_eps = 1e-6f,
     .rope_theta = 10000.0f,
     .tied_embeddings = false,
     .bos = 1,
     .eos = 2,
     .qkv_bias = false,
     .attention_bias = false,
     .mlp_bias = false,
     .qk_norm = false,
     .windows = WindowRule::kAll,
     .window = 4096,
     .window_from_layer = 0},
    // Qwen2 and Qwen2.5.
    {.name = "qwen2",
     .class_name = "Qwen2ForCausalLM",
     .vocab = 151936,
     .hidden = 4096,
     .intermediate = 22016,
     .layers = 32,
     .heads = 32,
     .kv_heads = 32,
     .head_dim = 0,
     .max_context = 32768,
     .norm_eps = 1e-6f,
     .rope_theta = 10000.0f,
     .tied_embeddings = false,
     .bos = -1,
     .eos = -1,
     .qkv_bias = true,
     .attention_bias = false,
     .mlp_bias = false,
     .qk_norm = false,
     .windows = WindowRule::kSwitch,
     .window = 4096,
     .window_from_layer = 28},
    {.name = "qwen3",
     .class_name = "Qwen3ForCausalLM",
     .vocab = 151936,
     .hidden = 4096,
     .intermediate = 22016,
     .layers = 32,
     .heads = 32,
     .kv_heads = 32,
     .head_dim = 128,
     .max_context = 32768,
     .norm_eps = 1e-6f,
     .rope_theta = 10000.0f,
     .tied_embeddings = false,
     .bos = -1,
     .eos = -1,
     .qkv_bias = false,
     .attention_bias = true,
     .mlp_bias = false,
     .qk_norm = true,
     .windows = WindowRule::kSwitch,
     .window = 4096,
     .window_from_layer = 28},
};

}  // namespace

std::span<const Architecture> Architectures() { return kArchitectures; }

const Architecture* FindArchitectureByClass(absl::string_view class_name) {
  for (const Architecture& row : kArchitectures)
    if (class_name == row.class_name) return &row;
  return nullptr;
}

const Architecture* FindArchitectureByType(absl::string_view model_type) {
  for (const Architecture& row : kArchitectures)
    if (model_type == row.name) return &row;
  return nullptr;
}

std::string KnownArchitectures() {
  std::string out;
  for (const Architecture& row : kArchitectures)
    absl::StrAppend(&out, out.empty() ? "" : ", ", row.name, " (", row.class_name, ")");
  return out;
}

}  // namespace penstock
