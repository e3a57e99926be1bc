#include "shard/model/model_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "shard/model/architectures.h"

namespace penstock {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

json Llama() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"vocab_size", 1000},
          {"hidden_size", 64},
          {"intermediate_size", 128},
          {"num_hidden_layers", 4},
          {"num_attention_heads", 8}};
}

json With(json config, const json& changes) {
  config.update(changes);
  return config;
}

json Qwen() {
  return With(Llama(), {{"architectures", {"Qwen2ForCausalLM"}}, {"num_key_value_heads", 4}});
}

ModelSpec Parse(const json& config) {
  const auto spec = ParseModelSpec(config);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.value_or(ModelSpec{});
}

std::string ErrorOf(const json& config) {
  const auto spec = ParseModelSpec(config);
  EXPECT_FALSE(spec.ok()) << config.dump(-1, ' ', true, json::error_handler_t::replace);
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(spec.status().message());
}

TEST(ModelSpec, AbsentKeysTakeTheFamilysDefaults) {
  const ModelSpec llama = Parse({{"architectures", {"LlamaForCausalLM"}}});
  EXPECT_EQ(llama.architecture, "llama");
  EXPECT_EQ(llama.hidden, 4096);
  EXPECT_EQ(llama.kv_heads, 32);
  EXPECT_EQ(llama.head_dim, 128);
  EXPECT_EQ(llama.max_context, 2048);
  EXPECT_FLOAT_EQ(llama.norm_eps, 1e-6f);
  EXPECT_EQ(llama.bos_token, 1);
  EXPECT_THAT(llama.eos_tokens, ElementsAre(2));
  EXPECT_FALSE(llama.qkv_bias || llama.attention_out_bias || llama.mlp_bias || llama.qk_norm);
  EXPECT_THAT(llama.windows, Each(0));

  const ModelSpec mistral = Parse({{"architectures", {"MistralForCausalLM"}}});
  EXPECT_EQ(mistral.kv_heads, 8);
  EXPECT_THAT(mistral.windows, Each(4096));

  const ModelSpec qwen2 = Parse({{"model_type", "qwen2"}});
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.attention_out_bias);
  EXPECT_THAT(qwen2.windows, Each(0));
  EXPECT_THAT(qwen2.eos_tokens, ElementsAre());

  const ModelSpec qwen3 = Parse({{"model_type", "qwen3"}, {"hidden_size", 1024}});
  EXPECT_EQ(qwen3.head_dim, 128);
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_FALSE(qwen3.qkv_bias);
}

TEST(ModelSpec, BothSpellingsMeanTheSame) {
  const json scaling = {{"rope_type", "linear"}, {"factor", 4}};
  const ModelSpec older = Parse(
      With(Llama(), {{"rope_theta", 5e5}, {"rope_scaling", scaling}, {"torch_dtype", "bfloat16"}}));
  const ModelSpec newer = Parse(With(
      Llama(), {{"rope_parameters", With(scaling, {{"rope_theta", 5e5}})}, {"dtype", "bfloat16"}}));
  for (const ModelSpec& spec : {older, newer}) {
    EXPECT_FLOAT_EQ(spec.rope.theta, 5e5f);
    EXPECT_EQ(spec.rope.scaling, RopeScaling::kLinear);
    EXPECT_FLOAT_EQ(spec.rope.factor, 4.0f);
    EXPECT_EQ(spec.stored_dtype, DType::kBF16);
  }
  const ModelSpec oldest =
      Parse(With(Llama(), {{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}}));
  EXPECT_FLOAT_EQ(oldest.rope.factor, 2.0f);
}

TEST(ModelSpec, StopTokensAreANumberOrAList) {
  EXPECT_THAT(Parse(With(Llama(), {{"eos_token_id", 7}})).eos_tokens, ElementsAre(7));
  EXPECT_THAT(Parse(With(Llama(), {{"eos_token_id", {7, 9}}})).eos_tokens, ElementsAre(7, 9));
  EXPECT_THAT(Parse(With(Llama(), {{"eos_token_id", nullptr}})).eos_tokens, ElementsAre());
  EXPECT_THAT(Parse(With(Llama(), {{"eos_token_id", {-1, 7, 1000}}})).eos_tokens, ElementsAre(7));
  EXPECT_EQ(Parse(With(Llama(), {{"bos_token_id", nullptr}})).bos_token, -1);
}

TEST(ModelSpec, Biases) {
  const ModelSpec llama = Parse(With(Llama(), {{"attention_bias", true}, {"mlp_bias", true}}));
  EXPECT_TRUE(llama.qkv_bias && llama.attention_out_bias && llama.mlp_bias);
  const json qwen2 = Qwen();
  EXPECT_FALSE(Parse(With(qwen2, {{"attention_bias", true}})).attention_out_bias);
}

TEST(ModelSpec, MistralWindow) {
  const json mistral = With(Llama(), {{"architectures", {"MistralForCausalLM"}}});
  EXPECT_THAT(Parse(With(mistral, {{"sliding_window", 16}})).windows, ElementsAre(16, 16, 16, 16));
  EXPECT_THAT(Parse(With(mistral, {{"sliding_window", nullptr}})).windows, Each(0));
}

TEST(ModelSpec, QwenWindow) {
  const json qwen = With(Qwen(), {{"sliding_window", 16}});
  EXPECT_THAT(Parse(qwen).windows, Each(0));
  const json on = With(qwen, {{"use_sliding_window", true}, {"max_window_layers", 3}});
  EXPECT_THAT(Parse(on).windows, ElementsAre(0, 0, 0, 16));
  const char *full = "full_attention", *sliding = "sliding_attention";
  EXPECT_THAT(Parse(With(on, {{"layer_types", {sliding, full, full, sliding}}})).windows,
              ElementsAre(16, 0, 0, 16));
  EXPECT_THAT(ErrorOf(With(on, {{"layer_types", {full}}})), HasSubstr("layer_types has 1 entries"));
  EXPECT_THAT(ErrorOf(With(on, {{"layer_types", {full, full, full, "chunked"}}})),
              HasSubstr("chunked"));
  EXPECT_THAT(ErrorOf(With(qwen, {{"layer_types", {full, full, full, sliding}}})),
              HasSubstr("layer_types"));
}

TEST(ModelSpec, ScaledContext) {
  const auto context = [](const json& scaling) {
    return Parse(With(Llama(), {{"max_position_embeddings", 4096}, {"rope_scaling", scaling}}))
        .max_context;
  };
  const char* original = "original_max_position_embeddings";
  EXPECT_EQ(context(nullptr), 4096);
  EXPECT_EQ(context({{"type", "linear"}, {"factor", 4}}), 4096);
  EXPECT_EQ(context({{"type", "dynamic"}, {"factor", 4}}), 4096);
  EXPECT_EQ(context({{"type", "yarn"}, {"factor", 4}, {original, 4096}}), 16384);
  EXPECT_EQ(context({{"type", "yarn"}, {"factor", 4}, {original, 1024}}), 4096);
  EXPECT_EQ(context({{"type", "llama3"}, {"factor", 32}, {original, 1024}}), 4096);
}

TEST(ModelSpec, FactorsComeAsTheyAre) {
  const json scaling = {{"rope_type", "factors"}, {"factors", {1, 1.5, 2, 8}}};
  const ModelSpec spec = Parse(With(Llama(), {{"rope_scaling", scaling}}));
  EXPECT_EQ(spec.rope.scaling, RopeScaling::kFactors);
  EXPECT_THAT(spec.rope.factors, ElementsAre(1.0f, 1.5f, 2.0f, 8.0f));
  const json few = {{"rope_type", "factors"}, {"factors", {1, 2}}};
  EXPECT_THAT(ErrorOf(With(Llama(), {{"rope_scaling", few}})),
              HasSubstr("rope_scaling.factors has 2 entries, expected 4"));
}

TEST(ModelSpec, UnknownArchitectureListsTheKnownOnes) {
  const std::string error = ErrorOf({{"architectures", {"MPNetModel"}}, {"model_type", "llama"}});
  EXPECT_THAT(error, HasSubstr("architectures \"MPNetModel\""));
  for (const Architecture& row : Architectures()) EXPECT_THAT(error, HasSubstr(row.class_name));
  EXPECT_THAT(ErrorOf(json::object()), HasSubstr("model_type is missing"));
  EXPECT_THAT(ErrorOf({{"architectures", json::array()}}), HasSubstr("architectures is missing"));
}

TEST(ModelSpec, RefusesWhatIsNotSupportedByName) {
  const auto scaled = [](const json& scaling) {
    return ErrorOf(With(Llama(), {{"rope_scaling", scaling}}));
  };
  EXPECT_THAT(scaled({{"rope_type", "longrope"}}),
              AllOf(HasSubstr("rope_scaling.rope_type \"longrope\""), HasSubstr("llama3")));
  EXPECT_THAT(scaled({{"type", "su"}}), HasSubstr("rope_scaling.type \"su\""));
  EXPECT_THAT(scaled({{"type", "linear"}}), HasSubstr("rope_scaling.factor is missing"));
  EXPECT_THAT(scaled({{"type", "default"}, {"partial_rotary_factor", 0.5}}),
              HasSubstr("partial_rotary_factor"));
  EXPECT_THAT(ErrorOf(With(Llama(), {{"partial_rotary_factor", 0.5}})),
              HasSubstr("partial_rotary_factor"));
  EXPECT_THAT(ErrorOf(With(Llama(), {{"hidden_act", "gelu"}})), HasSubstr("hidden_act \"gelu\""));
  EXPECT_THAT(ErrorOf(With(Llama(), {{"quantization_config", json::object()}})),
              HasSubstr("quantization_config"));
  EXPECT_THAT(ErrorOf(With(Llama(), {{"torch_dtype", "int7"}})), HasSubstr("torch_dtype \"int7\""));
  const json by_layer = {{"full_attention", {{"rope_theta", 1e4}}}};
  EXPECT_THAT(ErrorOf(With(Llama(), {{"rope_parameters", by_layer}})),
              HasSubstr("rope_parameters.full_attention"));
}

TEST(ModelSpec, NumbersThatCannotBe) {
  EXPECT_THAT(ErrorOf(With(Llama(), {{"num_key_value_heads", 3}})),
              HasSubstr("num_key_value_heads (3) does not divide num_attention_heads (8)"));
  EXPECT_THAT(ErrorOf(With(Llama(), {{"head_dim", 7}})), HasSubstr("head_dim (7)"));
  EXPECT_THAT(ErrorOf(With(Llama(), {{"num_attention_heads", 7}})), HasSubstr("hidden_size"));
  EXPECT_THAT(ErrorOf(With(Llama(), {{"hidden_size", 4}})), HasSubstr("hidden_size"));
  EXPECT_THAT(ErrorOf(With(Llama(), {{"rope_theta", 0}})), HasSubstr("rope_theta"));
  EXPECT_THAT(ErrorOf(With(Llama(), {{"rms_norm_eps", -1}})), HasSubstr("rms_norm_eps"));
  const json turned = {
      {"type", "llama3"}, {"factor", 8}, {"low_freq_factor", 4}, {"high_freq_factor", 1}};
  EXPECT_THAT(ErrorOf(With(Llama(), {{"rope_scaling", turned}})), HasSubstr("high_freq_factor"));
}

// Whatever stands where a number should be, the error names the key; nothing throws.
TEST(ModelSpec, WrongValuesOfEveryKeyAreNamed) {
  const json wrong_numbers = {
      -1,   0,    1e300,          1.5, uint64_t{1} << 63, std::numeric_limits<double>::quiet_NaN(),
      "12", true, json::object(), {1}};
  for (const char* key :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
        "num_attention_heads", "num_key_value_heads", "head_dim", "max_position_embeddings"}) {
    for (const json& value : wrong_numbers)
      EXPECT_THAT(ErrorOf(With(Llama(), {{key, value}})), HasSubstr(key)) << value.dump();
  }
  const json wrong_bools = {0, "true", json::array()};
  for (const char* key : {"attention_bias", "mlp_bias", "tie_word_embeddings"}) {
    for (const json& value : wrong_bools)
      EXPECT_THAT(ErrorOf(With(Llama(), {{key, value}})), HasSubstr(key));
  }
  const json wrong_anything = {std::numeric_limits<double>::quiet_NaN(), "\xff\xfe", true};
  for (const char* key : {"rope_theta", "rms_norm_eps", "rope_scaling", "rope_parameters",
                          "bos_token_id", "eos_token_id"}) {
    for (const json& value : wrong_anything)
      EXPECT_THAT(ErrorOf(With(Llama(), {{key, value}})), HasSubstr(key));
  }
}

TEST(ModelSpec, ConfigurationMustBeAnObject) {
  for (const json& config : {json(), json(3), json::array(), json("llama")})
    EXPECT_THAT(ErrorOf(config), HasSubstr("not a JSON object"));
  EXPECT_THAT(ErrorOf({{"architectures", {1}}}), HasSubstr("architectures"));
  EXPECT_THAT(ErrorOf({{"model_type", 1}}), HasSubstr("model_type"));
}

}  // namespace
}  // namespace penstock
