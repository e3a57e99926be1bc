#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "shard/backend/activation.h"
#include "shard/base/dtype.h"

namespace penstock {

enum class RopeScaling : uint8_t { kNone, kLinear, kLlama3, kYarn, kDynamic, kFactors };

// Rotary position embedding, as numbers. Formulas: RoFormer (Su et al. 2021); linear (Chen et al.
// 2023); NTK-aware dynamic; YaRN (Peng et al. 2023); Llama 3.1.
struct RopeSpec {
  float theta = 10000.0f;
  RopeScaling scaling = RopeScaling::kNone;
  float factor = 1.0f;
  int32_t original_context = 0;  // positions before scaling; 0 when the kind has no use for it
  float low_freq_factor = 1.0f, high_freq_factor = 4.0f;  // llama3
  float beta_fast = 32.0f, beta_slow = 1.0f;              // yarn
  float attention_factor = 0.0f;                          // yarn; 0: 0.1 ln(factor) + 1
  float mscale = 0.0f, mscale_all_dim = 0.0f;             // yarn, DeepSeek style; 0: unset
  bool truncate = true;                                   // yarn
  std::vector<float> factors{};  // factors: [head_dim / 2], each frequency's divisor
};

// How the rows of a sequence become the result of a one-shot model.
enum class Pooling : uint8_t {
  kMean,      // the mean of all rows: an embedding
  kCls,       // the first row: an embedding
  kClassify,  // the classification head: a score (logit) per label
};

// What an encoder (BERT family) is beside the numbers that it shares with decoders.
struct EncoderSpec {
  Pooling pooling = Pooling::kMean;
  bool normalize = false;       // embeddings get unit length
  int32_t token_types = 0;      // rows of the segment embedding; 0: none
  int32_t positions = 0;        // rows of the position embedding
  int32_t position_offset = 0;  // position p reads row p + offset (roberta: pad id + 1)
  Activation activation = Activation::kGelu;       // inside the MLP
  Activation head_activation = Activation::kTanh;  // of the layer before the classifier
  std::vector<std::string> labels;                 // of kClassify, in order of id
  bool single_label = true;  // scores become probabilities by softmax; false: by sigmoid

  int32_t output_width(int32_t hidden) const {
    return pooling == Pooling::kClassify ? static_cast<int32_t>(labels.size()) : hidden;
  }
};

// A transformer, as numbers: a decoder, or an encoder where `encoder` is set. What differs between
// architectures is a field here when it can be, and a Model subclass only when it cannot.
struct ModelSpec {
  std::string architecture;  // "llama", "qwen3", "bert", ...: a row of a table
  int32_t layers = 0;
  int32_t hidden = 0;        // width of the residual stream
  int32_t intermediate = 0;  // width inside the MLP
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int32_t vocab = 0;
  // Positions the model was made for, scaling included where the configuration says so (yarn and
  // linear with an original length). Dynamic scaling starts beyond it, up to factor times as many.
  int32_t max_context = 0;
  float norm_eps = 1e-5f;
  RopeSpec rope;
  std::vector<int32_t> windows;  // [layers] sliding window, 0 none
  bool qkv_bias = false;
  bool attention_out_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;              // RMSNorm over each head of q and k, before rotary
  bool tied_embeddings = false;      // the output head is the embedding table
  DType stored_dtype = DType::kF16;  // what the checkpoint is mostly stored in (quantized: f16)
  std::vector<int32_t> eos_tokens;
  int32_t bos_token = -1;
  std::optional<EncoderSpec> encoder;  // set: a one-shot model

  int32_t group() const { return heads / kv_heads; }
};

// From a Hugging Face config (older and newer spellings), with what stands beside it in a folder of
// sentence-transformers (checkpoint/sentence_transformers.h). InvalidArgument names the key and,
// for an unknown architecture, lists those that are known.
absl::StatusOr<ModelSpec> ParseModelSpec(const nlohmann::json& config);

}  // namespace penstock
