#include "shard/checkpoint/gguf_config.h"

#include <cmath>
#include <functional>
#include <numbers>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/checkpoint/checkpoint.h"
#include "tests/checkpoint/files.h"

namespace penstock {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

absl::StatusOr<json> ConfigOf(const GgufWriter& writer) {
  const TempFolder folder;
  const auto opened = Checkpoint::Open(folder.Write("model.gguf", writer.Bytes()));
  if (!opened.ok()) return opened.status();
  return (*opened)->config();
}

TEST(GgufConfigTest, LlamaInHuggingFacesTerms) {
  GgufWriter writer;
  writer.Model("llama", 4, 2, 64).F32("llama.rope.freq_base", 500000.0f);
  writer.U32("tokenizer.ggml.bos_token_id", 7).U32("tokenizer.ggml.eos_token_id", 8);
  const auto config = ConfigOf(writer);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(*config, json({{"architectures", {"LlamaForCausalLM"}},
                           {"model_type", "llama"},
                           {"num_hidden_layers", 1},
                           {"max_position_embeddings", 128},
                           {"hidden_size", 64},
                           {"intermediate_size", 128},
                           {"num_attention_heads", 4},
                           {"num_key_value_heads", 2},
                           {"head_dim", 16},
                           {"rms_norm_eps", 1e-5f},
                           {"rope_theta", 500000.0},
                           {"vocab_size", 3},
                           {"tie_word_embeddings", true},
                           {"sliding_window", nullptr},
                           {"attention_bias", false},
                           {"mlp_bias", false},
                           {"bos_token_id", 7},
                           {"eos_token_id", 8},
                           {"pad_token_id", nullptr},
                           {"hidden_act", "silu"},
                           {"torch_dtype", "float32"}}));
}

TEST(GgufConfigTest, FamiliesByArchitectureAndKeys) {
  const auto qwen2 = ConfigOf(GgufWriter().Model("qwen2", 2, 2, 8));
  ASSERT_TRUE(qwen2.ok()) << qwen2.status();
  EXPECT_EQ((*qwen2)["architectures"][0], "Qwen2ForCausalLM");
  EXPECT_FALSE(qwen2->contains("attention_bias"));
  const auto qwen3 =
      ConfigOf(GgufWriter().Model("qwen3", 2, 1, 8).U32("qwen3.attention.key_length", 16));
  ASSERT_TRUE(qwen3.ok()) << qwen3.status();
  EXPECT_EQ((*qwen3)["architectures"][0], "Qwen3ForCausalLM");
  EXPECT_EQ((*qwen3)["head_dim"], 16);
  const auto mistral =
      ConfigOf(GgufWriter().Model("llama", 2, 2, 8).U32("llama.attention.sliding_window", 32));
  ASSERT_TRUE(mistral.ok()) << mistral.status();
  EXPECT_EQ((*mistral)["architectures"][0], "MistralForCausalLM");
  EXPECT_EQ((*mistral)["sliding_window"], 32);
  const auto mixtral = ConfigOf(GgufWriter().Model("llama", 2, 2, 8).U32("llama.expert_count", 8));
  ASSERT_TRUE(mixtral.ok()) << mixtral.status();
  EXPECT_EQ((*mixtral)["model_type"], "mixtral");
}

TEST(GgufConfigTest, TensorsDecideWhatTheyCan) {
  GgufWriter writer;
  writer.Model("llama", 2, 2, 8);
  writer.Tensor("output.weight", {3, 8}, 30, std::string(48, '\0'));
  writer.Tensor("blk.0.ffn_down.weight", {8, 16}, 30, std::string(256, '\0'));
  writer.Tensor("blk.0.ffn_gate.bias", {16}, 0, std::string(64, '\0'));
  writer.Tensor("blk.0.attn_q.bias", {8}, 0, std::string(32, '\0'));
  const auto config = ConfigOf(writer);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ((*config)["tie_word_embeddings"], false);
  EXPECT_EQ((*config)["attention_bias"], true);
  EXPECT_EQ((*config)["mlp_bias"], true);
  EXPECT_EQ((*config)["torch_dtype"], "bfloat16");
}

TEST(GgufConfigTest, EqualValuesOfAllLayersAreOneAndTokensThatEndAreAList) {
  GgufWriter writer;
  writer.Model("qwen2", 4, 2, 64);
  writer.Pair(
      "qwen2.rope.dimension_count", 9,
      RawOne<uint32_t>(4) + RawOne<uint64_t>(2) + RawOne<uint32_t>(8) + RawOne<uint32_t>(8));
  writer.U32("tokenizer.ggml.eos_token_id", 2).U32("tokenizer.ggml.eot_token_id", 1);
  writer.U32("tokenizer.ggml.eom_token_id", 2);
  const auto config = ConfigOf(writer);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ((*config)["partial_rotary_factor"], 0.5);  // 8 of 16
  EXPECT_EQ((*config)["eos_token_id"], json({2, 1}));
  EXPECT_EQ((*config)["bos_token_id"], nullptr);
}

TEST(GgufConfigTest, AWindowAsLongAsTheContextIsNone) {
  for (const uint32_t window : {0u, 128u, 4096u}) {
    const auto config = ConfigOf(
        GgufWriter().Model("qwen2", 2, 2, 8).U32("qwen2.attention.sliding_window", window));
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ((*config)["sliding_window"], nullptr);
  }
}

TEST(GgufConfigTest, RopeScaling) {
  GgufWriter linear;
  linear.Model("llama", 2, 2, 8).Text("llama.rope.scaling.type", "linear");
  linear.F32("llama.rope.scaling.factor", 2.0f);
  EXPECT_EQ((*ConfigOf(linear))["rope_scaling"], json({{"rope_type", "linear"}, {"factor", 2.0}}));
  GgufWriter older;
  older.Model("llama", 2, 2, 8).F32("llama.rope.scale_linear", 4.0f);
  EXPECT_EQ((*ConfigOf(older))["rope_scaling"], json({{"rope_type", "linear"}, {"factor", 4.0}}));
  GgufWriter yarn;
  yarn.Model("qwen2", 2, 2, 8).Text("qwen2.rope.scaling.type", "yarn");
  yarn.F32("qwen2.rope.scaling.factor", 4.0f).F32("qwen2.rope.scaling.yarn_beta_fast", 16.0f);
  yarn.U32("qwen2.rope.scaling.original_context_length", 64);
  EXPECT_EQ((*ConfigOf(yarn))["rope_scaling"], json({{"rope_type", "yarn"},
                                                     {"factor", 4.0},
                                                     {"beta_fast", 16.0},
                                                     {"original_max_position_embeddings", 64}}));
  GgufWriter none;
  none.Model("llama", 2, 2, 8).Text("llama.rope.scaling.type", "none");
  EXPECT_FALSE(ConfigOf(none)->contains("rope_scaling"));
}

// Llama 3.1's own numbers, computed here in float as its converter does.
std::vector<float> Llama3Divisors(float factor, float original, float theta, int dim) {
  std::vector<float> divisors;
  for (int i = 0; i < dim; i += 2) {
    const float frequency = 1.0f / std::pow(theta, static_cast<float>(i) / static_cast<float>(dim));
    const float wavelength = 2 * std::numbers::pi_v<float> / frequency;
    const float smooth = (original / wavelength - 1.0f) / (4.0f - 1.0f);
    divisors.push_back(wavelength < original / 4.0f ? 1.0f
                       : wavelength > original      ? factor
                                                    : 1.0f / ((1 - smooth) / factor + smooth));
  }
  return divisors;
}

GgufWriter WithDivisors(const std::vector<float>& divisors) {
  GgufWriter writer;
  writer.Model("llama", 1, 1, 128).F32("llama.rope.freq_base", 500000.0f);
  writer.Tensor("rope_freqs.weight", {divisors.size()}, 0, Raw(divisors));
  return writer;
}

TEST(GgufConfigTest, RopeDivisorsOfLlama3AreRecognized) {
  for (const float factor : {8.0f, 32.0f}) {
    const auto config = ConfigOf(WithDivisors(Llama3Divisors(factor, 8192, 500000, 128)));
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ((*config)["rope_scaling"], json({{"rope_type", "llama3"},
                                               {"factor", factor},
                                               {"low_freq_factor", 1.0},
                                               {"high_freq_factor", 4.0},
                                               {"original_max_position_embeddings", 8192}}));
  }
}

TEST(GgufConfigTest, OtherRopeDivisorsAreHandedOn) {
  std::vector<float> divisors = Llama3Divisors(8, 8192, 500000, 128);
  divisors[40] *= 1.001f;
  const auto config = ConfigOf(WithDivisors(divisors));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ((*config)["rope_scaling"], json({{"rope_type", "factors"}, {"factors", divisors}}));
}

TEST(GgufConfigTest, SaysWhichKeyIsMissingOrWrong) {
  GgufWriter missing;
  missing.Text("general.architecture", "llama").U32("llama.block_count", 1);
  EXPECT_THAT(ConfigOf(missing).status().message(),
              AllOf(HasSubstr("model.gguf: "), HasSubstr("key llama.context_length: is missing")));
  GgufWriter no_heads;
  no_heads.Model("llama", 0, 2, 8);
  EXPECT_THAT(ConfigOf(no_heads).status().message(), HasSubstr("num_attention_heads"));
  GgufWriter other_values;
  other_values.Model("llama", 2, 2, 8).U32("llama.attention.value_length", 5);
  EXPECT_THAT(ConfigOf(other_values).status().message(), HasSubstr("llama.attention.value_length"));
  GgufWriter both = WithDivisors({1.0f, 2.0f});
  both.Text("llama.rope.scaling.type", "yarn");
  EXPECT_THAT(ConfigOf(both).status().message(), HasSubstr("llama.rope.scaling.type"));
  GgufWriter matrix;
  matrix.Model("llama", 2, 2, 8).Tensor("rope_freqs.weight", {2, 2}, 0, std::string(16, '\0'));
  EXPECT_THAT(ConfigOf(matrix).status().message(), HasSubstr("tensor rope_freqs.weight"));
}

// Values of a wrong type are passed on or refused, whatever the key; nothing is thrown.
TEST(GgufConfigTest, WrongTypesNeverThrow) {
  const std::string text = GgufString("x"), list = RawOne<uint32_t>(8) + RawOne<uint64_t>(0);
  for (const std::string key :
       {"block_count", "attention.head_count", "attention.head_count_kv", "attention.key_length",
        "attention.value_length", "attention.sliding_window", "expert_count", "rope.freq_base",
        "rope.dimension_count", "rope.scaling.type", "rope.scaling.factor", "rope.scale_linear",
        "rope.scaling.attn_factor", "embedding_length", "context_length"}) {
    for (const uint32_t type : {8u, 9u, 7u}) {
      GgufWriter writer;
      writer.Pair("llama." + std::string(key), type, type == 8 ? text : type == 9 ? list : "\1");
      writer.Text("general.architecture", "llama");
      for (const char* required :
           {"block_count", "context_length", "embedding_length", "feed_forward_length",
            "attention.head_count", "attention.layer_norm_rms_epsilon"})
        if (key != required) writer.U32(std::string("llama.") + required, 2);
      writer.Tensor("token_embd.weight", {1, 2}, 0, std::string(8, '\0'));
      ConfigOf(writer).IgnoreError();
    }
  }
}

}  // namespace
}  // namespace penstock
