#include "shard/checkpoint/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "shard/base/status_macros.h"
#include "shard/checkpoint/gguf_rope.h"
#include "shard/checkpoint/json.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr int64_t kMaxRopeDivisors = 4096;

struct Family {
  absl::string_view gguf, model_type, class_name;
};
constexpr Family kLlama{"llama", "llama", "LlamaForCausalLM"};
constexpr Family kMistral{"llama", "mistral", "MistralForCausalLM"};
constexpr Family kMixtral{"llama", "mixtral", "MixtralForCausalLM"};
constexpr Family kQwen2{"qwen2", "qwen2", "Qwen2ForCausalLM"};
constexpr Family kQwen3{"qwen3", "qwen3", "Qwen3ForCausalLM"};

struct Key {
  absl::string_view gguf, hugging_face;  // the first without the architecture in front
};
constexpr Key kRequired[] = {
    {"block_count", "num_hidden_layers"},
    {"context_length", "max_position_embeddings"},
    {"embedding_length", "hidden_size"},
    {"feed_forward_length", "intermediate_size"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
};

class ConfigMaker {
 public:
  ConfigMaker(const json& metadata, std::string architecture, const TensorTable& tensors,
              const std::string& source)
      : metadata_(metadata),
        architecture_(std::move(architecture)),
        tensors_(tensors),
        source_(source) {}

  absl::StatusOr<json> Make() {
    SetFamily();
    if (!IsKnownGgufArchitecture(architecture_)) return std::move(config_);
    RETURN_IF_ERROR(SetShape());
    RETURN_IF_ERROR(SetHeads());
    RETURN_IF_ERROR(SetRope());
    SetWindow();
    SetBiases();
    SetTokens();
    config_["hidden_act"] = "silu";
    config_["torch_dtype"] = MostlyStoredAs();
    return std::move(config_);
  }

 private:
  // The architecture's key; an array of equal values (one for each layer) is that value. Null when
  // it is absent.
  json Get(absl::string_view key) const {
    const json* value = FindMember(metadata_, absl::StrCat(architecture_, ".", key));
    if (value == nullptr) return nullptr;
    if (!value->is_array() || value->empty()) return *value;
    for (const json& element : *value)
      if (element != value->front()) return *value;
    return value->front();
  }

  void Set(absl::string_view key, json value) { config_[std::string(key)] = std::move(value); }

  absl::Status Error(absl::string_view key, absl::string_view problem) const {
    return absl::InvalidArgumentError(
        absl::StrCat(source_, ": key ", architecture_, ".", key, ": ", problem));
  }

  bool Has(absl::string_view tensor) const { return tensors_.Find(tensor) != nullptr; }

  // Mistral and Mixtral call themselves llama in GGUF.
  Family FindFamily() const {
    const json experts = Get("expert_count");
    if (architecture_ == kQwen2.gguf) return kQwen2;
    if (architecture_ == kQwen3.gguf) return kQwen3;
    if (architecture_ != kLlama.gguf) return {architecture_, architecture_, architecture_};
    if (experts.is_number() && experts > 0) return kMixtral;
    return Get("attention.sliding_window").is_null() ? kLlama : kMistral;
  }

  void SetFamily() {
    const Family family = FindFamily();
    Set("architectures", json::array({std::string(family.class_name)}));
    Set("model_type", std::string(family.model_type));
  }

  absl::Status SetShape() {
    for (const Key& key : kRequired) {
      json value = Get(key.gguf);
      if (value.is_null()) return Error(key.gguf, "is missing");
      Set(key.hugging_face, std::move(value));
    }
    const StoredTensor* embedding = tensors_.Find("model.embed_tokens.weight");
    if (embedding == nullptr)
      return absl::InvalidArgumentError(
          absl::StrCat(source_, ": there is no tensor token_embd.weight"));
    Set("vocab_size", ShapeAsMatrix(embedding->info.shape).rows);
    Set("tie_word_embeddings", !Has("lm_head.weight"));
    return absl::OkStatus();
  }

  absl::Status SetHeads() {
    const json heads = Get("attention.head_count"), kv_heads = Get("attention.head_count_kv");
    Set("num_key_value_heads", kv_heads.is_null() ? heads : kv_heads);
    json head_dim = Get("attention.key_length");
    const json value_dim = Get("attention.value_length"), width = Get("embedding_length");
    if (head_dim.is_null() && heads.is_number_unsigned() && width.is_number_unsigned() && heads > 0)
      head_dim = width.get<uint64_t>() / heads.get<uint64_t>();
    if (!value_dim.is_null() && value_dim != head_dim)
      return Error("attention.value_length", "other than the key length is not supported");
    const json rotary_dim = Get("rope.dimension_count");
    if (rotary_dim.is_number() && head_dim.is_number() && rotary_dim != head_dim && head_dim > 0)
      Set("partial_rotary_factor", rotary_dim.get<double>() / head_dim.get<double>());
    if (!head_dim.is_null()) Set("head_dim", std::move(head_dim));
    return absl::OkStatus();
  }

  absl::Status SetRope() {
    const json base = Get("rope.freq_base");
    const double theta = base.is_number() ? base.get<double>() : 10000.0;
    Set("rope_theta", base.is_null() ? json(theta) : base);
    ASSIGN_OR_RETURN(const std::vector<float> divisors, RopeDivisors());
    json scaling = RopeScaling();
    if (!divisors.empty()) {
      if (!scaling.is_null())
        return Error("rope.scaling.type", "together with rope_freqs.weight is not supported");
      scaling = RopeScalingOfDivisors(divisors, theta);
    }
    if (!scaling.is_null()) Set("rope_scaling", std::move(scaling));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<float>> RopeDivisors() const {
    std::vector<float> divisors;
    const StoredTensor* tensor = tensors_.Find("rope_freqs.weight");
    if (tensor == nullptr) return divisors;
    const MatrixShape shape = ShapeAsMatrix(tensor->info.shape);
    if (shape.rows != 1 || shape.cols > kMaxRopeDivisors)
      return TensorError(absl::InvalidArgumentError("is no vector of rotary divisors"), source_,
                         tensor->info.name);
    divisors.resize(static_cast<size_t>(shape.cols));
    RETURN_IF_ERROR(tensors_.Read(tensor->info.name, source_, {0, 1}, {0, shape.cols}, DType::kF32,
                                  divisors.data(), nullptr));
    return divisors;
  }

  // Null when there is none. Older files have the linear factor alone.
  json RopeScaling() const {
    json type = Get("rope.scaling.type"), factor = Get("rope.scaling.factor");
    if (type.is_null()) {
      if (factor.is_null()) factor = Get("rope.scale_linear");
      type = factor.is_null() ? "none" : "linear";
    }
    if (type == "none" || factor == 1.0) return nullptr;
    json scaling = {{"rope_type", type}, {"factor", factor}};
    const json original = Get("rope.scaling.original_context_length");
    if (!original.is_null()) scaling["original_max_position_embeddings"] = original;
    if (type == "yarn") SetYarn(scaling);
    return scaling;
  }

  // GGUF's attention factor is relative to the one that follows from the scaling factor.
  void SetYarn(json& scaling) const {
    const json attention = Get("rope.scaling.attn_factor"), &factor = scaling["factor"];
    if (attention.is_number() && factor.is_number() && factor > 0)
      scaling["attention_factor"] =
          attention.get<double>() * (0.1 * std::log(factor.get<double>()) + 1.0);
    for (const auto& [gguf, hugging_face] : {Key{"rope.scaling.yarn_beta_fast", "beta_fast"},
                                             Key{"rope.scaling.yarn_beta_slow", "beta_slow"}}) {
      json value = Get(gguf);
      if (!value.is_null()) scaling[std::string(hugging_face)] = std::move(value);
    }
  }

  // A window that the context never leaves is none.
  void SetWindow() {
    json window = Get("attention.sliding_window");
    const json context = Get("context_length");
    if (window.is_null() || window == 0) return Set("sliding_window", nullptr);
    if (window.is_number() && context.is_number() && window >= context)
      return Set("sliding_window", nullptr);
    Set("sliding_window", std::move(window));
    if (architecture_ == kLlama.gguf) return;
    Set("use_sliding_window", true);
    Set("max_window_layers", 0);
  }

  void SetBiases() {
    const std::string layer = "model.layers.0.";
    if (architecture_ != kQwen2.gguf)  // whose biases are no choice
      Set("attention_bias",
          Has(layer + "self_attn.q_proj.bias") || Has(layer + "self_attn.o_proj.bias"));
    Set("mlp_bias", Has(layer + "mlp.gate_proj.bias"));
  }

  // A reply ends with any of the tokens that end a text, a turn or a message.
  void SetTokens() {
    json ends = json::array();
    for (const char* name : {"eos", "eot", "eom"}) {
      const json* id = FindMember(metadata_, absl::StrCat("tokenizer.ggml.", name, "_token_id"));
      if (id != nullptr && std::find(ends.begin(), ends.end(), *id) == ends.end())
        ends.push_back(*id);
    }
    Set("eos_token_id", ends.empty() ? json(nullptr) : ends.size() == 1 ? ends.front() : ends);
    for (const auto& [gguf, hugging_face] :
         {Key{"bos", "bos_token_id"}, Key{"padding", "pad_token_id"}}) {
      const json* id = FindMember(metadata_, absl::StrCat("tokenizer.ggml.", gguf, "_token_id"));
      Set(hugging_face, id == nullptr ? json(nullptr) : *id);
    }
  }

  std::string MostlyStoredAs() const {
    double f32 = 0, bf16 = 0, other = 0;  // bytes
    for (const TensorInfo& tensor : tensors_.List())
      (tensor.stored_type == "F32"    ? f32
       : tensor.stored_type == "BF16" ? bf16
                                      : other) += static_cast<double>(tensor.stored_bytes);
    if (bf16 > other && bf16 > f32) return "bfloat16";
    return f32 > other ? "float32" : "float16";
  }

  const json& metadata_;
  const std::string architecture_;
  const TensorTable& tensors_;
  const std::string& source_;
  json config_ = json::object();
};

}  // namespace

absl::StatusOr<std::string> GgufArchitecture(const json& metadata, const std::string& source) {
  const json* value = FindMember(metadata, "general.architecture");
  const std::string* name = value == nullptr ? nullptr : value->get_ptr<const std::string*>();
  if (name == nullptr || name->empty() ||
      !std::all_of(name->begin(), name->end(),
                   [](unsigned char c) { return absl::ascii_isalnum(c) || c == '-' || c == '_'; }))
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": key general.architecture: must be a word"));
  return *name;
}

bool IsKnownGgufArchitecture(const std::string& architecture) {
  return architecture == kLlama.gguf || architecture == kQwen2.gguf || architecture == kQwen3.gguf;
}

absl::StatusOr<json> MakeConfig(const json& metadata, const TensorTable& tensors,
                                const std::string& source) {
  ASSIGN_OR_RETURN(std::string architecture, GgufArchitecture(metadata, source));
  return ConfigMaker(metadata, std::move(architecture), tensors, source).Make();
}

}  // namespace penstock
