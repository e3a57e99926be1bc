#include "shard/model/encoder_config.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "shard/base/status_macros.h"
#include "shard/checkpoint/sentence_transformers.h"

namespace penstock {
namespace {

// Far above any real model, low enough that products of three of them fit 64 bits.
constexpr int32_t kMaxLayers = 4096, kMaxHeads = 4096, kMaxLabels = 1 << 20;
constexpr int32_t kMaxWidth = 1 << 20, kMaxIntermediate = 1 << 22, kMaxVocab = 1 << 24;
constexpr int32_t kMaxPositions = 1 << 24, kMaxTokenTypes = 1 << 16, kMaxHeadDim = 4096;

absl::Status ParseShape(const ConfigReader& config, const EncoderFamily& family, ModelSpec& spec) {
  const EncoderKeys& keys = family.keys;
  ASSIGN_OR_RETURN(spec.vocab, config.Int("vocab_size", family.vocab, 1, kMaxVocab));
  ASSIGN_OR_RETURN(spec.hidden, config.Int(keys.hidden, family.hidden, 1, kMaxWidth));
  ASSIGN_OR_RETURN(spec.intermediate,
                   config.Int(keys.intermediate, family.intermediate, 1, kMaxIntermediate));
  ASSIGN_OR_RETURN(spec.layers, config.Int(keys.layers, family.layers, 1, kMaxLayers));
  ASSIGN_OR_RETURN(spec.heads, config.Int(keys.heads, family.heads, 1, kMaxHeads));
  spec.kv_heads = spec.heads;
  if (spec.hidden % spec.heads != 0)
    return config.Error(keys.hidden, absl::StrCat("(", spec.hidden, ") does not divide by ",
                                                  spec.heads, " heads (", keys.heads, ")"));
  spec.head_dim = spec.hidden / spec.heads;
  if (spec.head_dim > kMaxHeadDim)
    return config.Error(
        keys.hidden, absl::StrCat("gives heads of ", spec.head_dim, ", more than ", kMaxHeadDim));
  ASSIGN_OR_RETURN(spec.norm_eps, config.Float("layer_norm_eps", family.norm_eps, 0.0f, 0.1f));
  return absl::OkStatus();
}

absl::Status RefuseUnsupported(const ConfigReader& config) {
  ASSIGN_OR_RETURN(const bool decoder, config.Bool("is_decoder", false));
  if (decoder) return config.Error("is_decoder", "is true; only encoders are supported");
  ASSIGN_OR_RETURN(const std::string positions,
                   config.String("position_embedding_type", "absolute"));
  if (positions != "absolute")
    return config.Error("position_embedding_type",
                        absl::StrCat("\"", positions, "\" is not supported; known: absolute"));
  return absl::OkStatus();
}

absl::StatusOr<Activation> ParseActivation(const ConfigReader& config, const char* key) {
  ASSIGN_OR_RETURN(const std::string name, config.String(key, "gelu"));
  if (name == "gelu") return Activation::kGelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return Activation::kGeluTanh;
  if (name == "relu") return Activation::kRelu;
  return config.Error(key, absl::StrCat("\"", name, "\" is not supported; known: gelu, gelu_new, ",
                                        "gelu_pytorch_tanh, relu"));
}

absl::Status ParsePositions(const ConfigReader& config, const EncoderFamily& family,
                            ModelSpec& spec) {
  EncoderSpec& encoder = *spec.encoder;
  ASSIGN_OR_RETURN(encoder.positions,
                   config.Int("max_position_embeddings", family.positions, 1, kMaxPositions));
  if (family.token_types > 0) {
    ASSIGN_OR_RETURN(encoder.token_types,
                     config.Int("type_vocab_size", family.token_types, 1, kMaxTokenTypes));
  }
  if (family.positions_after_pad) {
    ASSIGN_OR_RETURN(const int32_t pad, config.Int("pad_token_id", family.pad, 0, kMaxVocab));
    encoder.position_offset = pad + 1;
  }
  spec.max_context = encoder.positions - encoder.position_offset;
  if (spec.max_context < 1)
    return config.Error("max_position_embeddings",
                        absl::StrCat("(", encoder.positions, ") leaves no position behind the ",
                                     encoder.position_offset, " that pad_token_id takes"));
  return absl::OkStatus();
}

// The label of each id from 0 on.
absl::Status ParseLabels(const ConfigReader& config, EncoderSpec& encoder) {
  if (!config.Has("id2label")) {
    ASSIGN_OR_RETURN(const int32_t count, config.Int("num_labels", 2, 1, kMaxLabels));
    for (int32_t id = 0; id < count; ++id) encoder.labels.push_back(absl::StrCat("LABEL_", id));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const ConfigReader labels, config.Section("id2label"));
  if (labels.size() == 0) return config.Error("id2label", "has no label");
  for (size_t id = 0; id < labels.size(); ++id) {
    const std::string key = absl::StrCat(id);
    if (!labels.Has(key))
      return config.Error("id2label",
                          absl::StrCat("has ", labels.size(), " labels, but none for id ", id));
    ASSIGN_OR_RETURN(std::string label, labels.String(key, ""));
    encoder.labels.push_back(std::move(label));
  }
  return absl::OkStatus();
}

absl::Status ParseClassifier(const ConfigReader& config, EncoderSpec& encoder) {
  encoder.pooling = Pooling::kClassify;
  RETURN_IF_ERROR(ParseLabels(config, encoder));
  constexpr const char *kKey = "problem_type", *kSingle = "single_label_classification",
                       *kMulti = "multi_label_classification";
  const char* absent = encoder.labels.size() == 1 ? kMulti : kSingle;
  ASSIGN_OR_RETURN(const std::string problem, config.String(kKey, absent));
  if (problem != kSingle && problem != kMulti)
    return config.Error(
        kKey, absl::StrCat("\"", problem, "\" is not supported; known: ", kSingle, ", ", kMulti));
  encoder.single_label = problem == kSingle && encoder.labels.size() > 1;
  return absl::OkStatus();
}

// Of `pooling_mode_*`, the one that is on; or `pooling_mode`, the newer spelling.
absl::Status ParsePooling(const ConfigReader& config, EncoderSpec& encoder) {
  constexpr absl::string_view kModes[] = {"cls_token",           "mean_tokens",
                                          "max_tokens",          "mean_sqrt_len_tokens",
                                          "weightedmean_tokens", "lasttoken"};
  std::vector<std::string> on;
  for (const absl::string_view mode : kModes) {
    const std::string key = absl::StrCat("pooling_mode_", mode);
    ASSIGN_OR_RETURN(const bool set, config.Bool(key, false));
    if (set) on.emplace_back(mode);
  }
  if (on.empty()) {
    ASSIGN_OR_RETURN(std::string mode, config.String("pooling_mode", "mean"));
    on.push_back(std::move(mode));
  }
  if (on.size() == 1 && (on[0] == "mean" || on[0] == "mean_tokens")) {
    encoder.pooling = Pooling::kMean;
  } else if (on.size() == 1 && (on[0] == "cls" || on[0] == "cls_token")) {
    encoder.pooling = Pooling::kCls;
  } else {
    return config.Error("pooling_mode", absl::StrCat("\"", absl::StrJoin(on, "+"),
                                                     "\" is not supported; known: mean, cls"));
  }
  return absl::OkStatus();
}

absl::Status ParseModules(const ConfigReader& config, ModelSpec& spec) {
  if (!config.Has(kSentenceTransformersKey)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ConfigReader modules, config.Section(kSentenceTransformersKey));
  ASSIGN_OR_RETURN(spec.encoder->normalize, modules.Bool("normalize", false));
  ASSIGN_OR_RETURN(const int32_t longest,
                   modules.Int("max_seq_length", spec.max_context, 1, kMaxPositions));
  spec.max_context = std::min(spec.max_context, longest);
  if (!modules.Has("pooling")) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ConfigReader pooling, modules.Section("pooling"));
  return ParsePooling(pooling, *spec.encoder);
}

}  // namespace

absl::StatusOr<EncoderClass> FindEncoderClass(const ConfigReader& config) {
  ASSIGN_OR_RETURN(const std::vector<std::string> classes, config.Strings("architectures"));
  if (classes.empty()) {
    ASSIGN_OR_RETURN(const std::string type, config.String("model_type", ""));
    return EncoderClass{.family = FindEncoderFamily(type)};
  }
  for (const EncoderFamily& family : EncoderFamilies()) {
    absl::string_view rest = classes.front();
    if (!absl::ConsumePrefix(&rest, family.class_prefix)) continue;
    if (rest == "Model") return EncoderClass{.family = &family};
    if (rest == "ForSequenceClassification")
      return EncoderClass{.family = &family, .classifies = true};
    if (absl::StartsWith(rest, "For") && config.Has(kSentenceTransformersKey))
      return EncoderClass{.family = &family};
  }
  return EncoderClass{};
}

absl::StatusOr<ModelSpec> ParseEncoder(const ConfigReader& config, const EncoderClass& encoder) {
  const EncoderFamily& family = *encoder.family;
  ModelSpec spec;
  spec.architecture = family.name;
  spec.stored_dtype = DType::kF32;  // what the reference implementation takes an absent key for
  spec.encoder.emplace();
  spec.encoder->head_activation = family.head_activation;
  RETURN_IF_ERROR(RefuseUnsupported(config));
  RETURN_IF_ERROR(ParseShape(config, family, spec));
  ASSIGN_OR_RETURN(spec.encoder->activation, ParseActivation(config, family.keys.activation));
  RETURN_IF_ERROR(ParsePositions(config, family, spec));
  RETURN_IF_ERROR(encoder.classifies ? ParseClassifier(config, *spec.encoder)
                                     : ParseModules(config, spec));
  return spec;
}

}  // namespace penstock
