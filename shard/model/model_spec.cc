#include "shard/model/model_spec.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "shard/base/status_macros.h"
#include "shard/model/architectures.h"
#include "shard/model/config_reader.h"
#include "shard/model/encoder_config.h"
#include "shard/model/encoder_families.h"
#include "shard/model/rope_config.h"

namespace penstock {
namespace {

// Far above any real model, low enough that products of three of them fit 64 bits.
constexpr int32_t kMaxLayers = 4096, kMaxHeads = 4096, kMaxHeadDim = 4096;
constexpr int32_t kMaxWidth = 1 << 20, kMaxIntermediate = 1 << 22, kMaxVocab = 1 << 24;
constexpr int32_t kMaxPositions = 1 << 30, kMaxId = 0x7fffffff;

absl::StatusOr<const Architecture*> ParseFamily(const ConfigReader& config) {
  const char* key = config.Has("architectures") ? "architectures" : "model_type";
  std::string name;
  const Architecture* found = nullptr;
  if (config.Has("architectures")) {
    ASSIGN_OR_RETURN(const std::vector<std::string> classes, config.Strings("architectures"));
    if (!classes.empty()) name = classes.front();
    found = FindArchitectureByClass(name);
  } else {
    ASSIGN_OR_RETURN(name, config.String("model_type", ""));
    found = FindArchitectureByType(name);
  }
  if (found != nullptr) return found;
  return config.Error(
      key,
      absl::StrCat(name.empty() ? "is missing" : absl::StrCat("\"", name, "\" is not supported"),
                   "; known: ", KnownArchitectures(), ", ", KnownEncoders()));
}

absl::Status ParseShape(const ConfigReader& config, const Architecture& family, ModelSpec& spec) {
  ASSIGN_OR_RETURN(spec.vocab, config.Int("vocab_size", family.vocab, 1, kMaxVocab));
  ASSIGN_OR_RETURN(spec.hidden, config.Int("hidden_size", family.hidden, 1, kMaxWidth));
  ASSIGN_OR_RETURN(spec.intermediate,
                   config.Int("intermediate_size", family.intermediate, 1, kMaxIntermediate));
  ASSIGN_OR_RETURN(spec.layers, config.Int("num_hidden_layers", family.layers, 1, kMaxLayers));
  ASSIGN_OR_RETURN(spec.heads, config.Int("num_attention_heads", family.heads, 1, kMaxHeads));
  const bool as_many = family.kv_heads == 0 || config.IsNull("num_key_value_heads");
  ASSIGN_OR_RETURN(spec.kv_heads, config.Int("num_key_value_heads",
                                             as_many ? spec.heads : family.kv_heads, 1, kMaxHeads));
  if (spec.heads % spec.kv_heads != 0)
    return config.Error("num_key_value_heads",
                        absl::StrCat("(", spec.kv_heads, ") does not divide num_attention_heads (",
                                     spec.heads, ")"));
  return absl::OkStatus();
}

absl::Status ParseHeadDim(const ConfigReader& config, const Architecture& family, ModelSpec& spec) {
  if (!config.Has("head_dim") && family.head_dim == 0 && spec.hidden % spec.heads != 0)
    return config.Error("hidden_size", absl::StrCat("(", spec.hidden, ") does not divide by ",
                                                    spec.heads, " heads and head_dim is missing"));
  const int32_t absent = family.head_dim != 0 ? family.head_dim : spec.hidden / spec.heads;
  ASSIGN_OR_RETURN(spec.head_dim, config.Int("head_dim", absent, 2, kMaxHeadDim));
  if (spec.head_dim < 2 || spec.head_dim > kMaxHeadDim || spec.head_dim % 2 != 0)
    return config.Error("head_dim", absl::StrCat("(", spec.head_dim,
                                                 ") is not an even number up to ", kMaxHeadDim));
  return absl::OkStatus();
}

absl::Status ParseBiases(const ConfigReader& config, const Architecture& family, ModelSpec& spec) {
  spec.qk_norm = family.qk_norm;
  spec.qkv_bias = family.qkv_bias;
  if (family.attention_bias) {
    ASSIGN_OR_RETURN(spec.attention_out_bias, config.Bool("attention_bias", false));
    spec.qkv_bias = spec.qkv_bias || spec.attention_out_bias;
  }
  if (family.mlp_bias) {
    ASSIGN_OR_RETURN(spec.mlp_bias, config.Bool("mlp_bias", false));
  }
  return absl::OkStatus();
}

// The window that layers with one have; 0 when the model uses none.
absl::StatusOr<int32_t> ParseWindow(const ConfigReader& config, const Architecture& family) {
  if (family.windows == WindowRule::kNone) return 0;
  if (family.windows == WindowRule::kSwitch) {
    ASSIGN_OR_RETURN(const bool on, config.Bool("use_sliding_window", false));
    if (!on) return 0;
  }
  if (config.IsNull("sliding_window")) return 0;
  return config.Int("sliding_window", family.window, 1, kMaxPositions);
}

// `layer_types`, where given, says which layers have the window; otherwise the family's rule does.
absl::Status ParseWindows(const ConfigReader& config, const Architecture& family, ModelSpec& spec) {
  ASSIGN_OR_RETURN(const int32_t window, ParseWindow(config, family));
  ASSIGN_OR_RETURN(const int32_t from,
                   config.Int("max_window_layers", family.window_from_layer, 0, kMaxId));
  spec.windows.assign(static_cast<size_t>(spec.layers), 0);
  if (family.windows == WindowRule::kNone) return absl::OkStatus();
  if (!config.Has("layer_types")) {
    for (int32_t i = family.windows == WindowRule::kSwitch ? from : 0; i < spec.layers; ++i)
      spec.windows[static_cast<size_t>(i)] = window;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> types, config.Strings("layer_types"));
  if (types.size() != spec.windows.size())
    return config.Error("layer_types", absl::StrCat("has ", types.size(), " entries, expected ",
                                                    spec.layers, " (num_hidden_layers)"));
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] == "full_attention") continue;
    if (types[i] != "sliding_attention")
      return config.Error("layer_types",
                          absl::StrCat("has \"", types[i], "\", which is not ", "supported"));
    if (window == 0) return config.Error("layer_types", "has a sliding layer, but no window is on");
    spec.windows[i] = window;
  }
  return absl::OkStatus();
}

absl::Status ParseStoredType(const ConfigReader& config, ModelSpec& spec) {
  const char* key = config.Has("dtype") ? "dtype" : "torch_dtype";
  ASSIGN_OR_RETURN(const std::string name, config.String(key, "auto"));
  if (name == "auto") return absl::OkStatus();
  const absl::StatusOr<DType> dtype = ParseDType(absl::StripPrefix(name, "torch."));
  if (!dtype.ok()) return config.Error(key, absl::StrCat("\"", name, "\" is not supported"));
  spec.stored_dtype = *dtype;
  return absl::OkStatus();
}

// Ids that the model cannot draw are left out; so is -1, which some files write for "none".
absl::Status ParseSpecialTokens(const ConfigReader& config, const Architecture& family,
                                ModelSpec& spec) {
  ASSIGN_OR_RETURN(std::vector<int32_t> bos, config.Ints("bos_token_id", -1, kMaxId));
  ASSIGN_OR_RETURN(std::vector<int32_t> eos, config.Ints("eos_token_id", -1, kMaxId));
  const auto absent = [&](const char* key) { return !config.Has(key) && !config.IsNull(key); };
  if (absent("bos_token_id")) bos = {family.bos};
  if (absent("eos_token_id")) eos = {family.eos};
  const auto drawable = [&](int32_t id) { return id >= 0 && id < spec.vocab; };
  spec.bos_token = !bos.empty() && drawable(bos.front()) ? bos.front() : -1;
  std::copy_if(eos.begin(), eos.end(), std::back_inserter(spec.eos_tokens), drawable);
  return absl::OkStatus();
}

absl::Status RefuseUnsupported(const ConfigReader& config) {
  ASSIGN_OR_RETURN(const std::string act, config.String("hidden_act", "silu"));
  if (act != "silu" && act != "swish")
    return config.Error("hidden_act", absl::StrCat("\"", act, "\" is not supported; known: silu"));
  return absl::OkStatus();
}

absl::Status RefuseQuantized(const ConfigReader& config) {
  if (config.Has("quantization_config"))
    return config.Error("quantization_config", "(a quantized folder) is not supported");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelSpec> ParseModelSpec(const nlohmann::json& config) {
  if (!config.is_object())
    return absl::InvalidArgumentError("model configuration: is not a JSON object");
  const ConfigReader reader(config);
  RETURN_IF_ERROR(RefuseQuantized(reader));
  ASSIGN_OR_RETURN(const EncoderClass encoder, FindEncoderClass(reader));
  if (encoder.family != nullptr) {
    ASSIGN_OR_RETURN(ModelSpec spec, ParseEncoder(reader, encoder));
    RETURN_IF_ERROR(ParseStoredType(reader, spec));
    return spec;
  }
  ASSIGN_OR_RETURN(const Architecture* family, ParseFamily(reader));
  ModelSpec spec;
  spec.architecture = family->name;
  RETURN_IF_ERROR(RefuseUnsupported(reader));
  RETURN_IF_ERROR(ParseShape(reader, *family, spec));
  RETURN_IF_ERROR(ParseHeadDim(reader, *family, spec));
  RETURN_IF_ERROR(ParseBiases(reader, *family, spec));
  RETURN_IF_ERROR(ParseWindows(reader, *family, spec));
  RETURN_IF_ERROR(ParseStoredType(reader, spec));
  RETURN_IF_ERROR(ParseSpecialTokens(reader, *family, spec));
  ASSIGN_OR_RETURN(spec.norm_eps, reader.Float("rms_norm_eps", family->norm_eps, 0.0f, 0.1f));
  ASSIGN_OR_RETURN(spec.tied_embeddings,
                   reader.Bool("tie_word_embeddings", family->tied_embeddings));
  ASSIGN_OR_RETURN(const int32_t positions,
                   reader.Int("max_position_embeddings", family->max_context, 1, kMaxPositions));
  ASSIGN_OR_RETURN(spec.rope, ParseRopeSpec(reader, *family, spec.head_dim, positions));
  spec.max_context = ScaledContext(spec.rope, positions);
  return spec;
}

}  // namespace penstock
