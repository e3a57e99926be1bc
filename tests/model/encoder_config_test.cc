#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shard/checkpoint/sentence_transformers.h"
#include "shard/model/encoder_families.h"
#include "shard/model/model_spec.h"

namespace penstock {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

json Bert(const json& changes = json::object()) {
  json config = {{"architectures", {"BertModel"}}, {"hidden_size", 64}, {"num_attention_heads", 4}};
  config.update(changes);
  return config;
}

json Classifier(const json& changes = json::object()) {
  json config = Bert({{"architectures", {"BertForSequenceClassification"}}});
  config.update(changes);
  return config;
}

ModelSpec Parse(const json& config) {
  const auto spec = ParseModelSpec(config);
  EXPECT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(spec.ok() && spec->encoder);
  ModelSpec none;
  none.encoder.emplace();
  return spec.ok() && spec->encoder ? *spec : none;
}

std::string ErrorOf(const json& config) {
  const auto spec = ParseModelSpec(config);
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(spec.status().message());
}

TEST(EncoderConfig, AbsentKeysTakeTheFamilysDefaults) {
  const ModelSpec bert = Parse({{"architectures", {"BertModel"}}});
  EXPECT_EQ(bert.architecture, "bert");
  EXPECT_EQ(bert.hidden, 768);
  EXPECT_EQ(bert.heads, 12);
  EXPECT_EQ(bert.kv_heads, 12);
  EXPECT_EQ(bert.head_dim, 64);
  EXPECT_EQ(bert.vocab, 30522);
  EXPECT_EQ(bert.max_context, 512);
  EXPECT_FLOAT_EQ(bert.norm_eps, 1e-12f);
  EXPECT_EQ(bert.stored_dtype, DType::kF32);
  EXPECT_EQ(bert.encoder->token_types, 2);
  EXPECT_EQ(bert.encoder->position_offset, 0);
  EXPECT_EQ(bert.encoder->activation, Activation::kGelu);
  EXPECT_EQ(bert.encoder->pooling, Pooling::kMean);
  EXPECT_FALSE(bert.encoder->normalize);
  EXPECT_EQ(bert.encoder->output_width(bert.hidden), 768);

  const ModelSpec distil = Parse({{"model_type", "distilbert"}, {"dim", 96}, {"n_layers", 3}});
  EXPECT_EQ(distil.hidden, 96);
  EXPECT_EQ(distil.layers, 3);
  EXPECT_EQ(distil.encoder->token_types, 0);
  EXPECT_EQ(distil.encoder->head_activation, Activation::kRelu);
}

TEST(EncoderConfig, EveryFamilyIsFoundByItsClassesAndItsType) {
  for (const EncoderFamily& family : EncoderFamilies()) {
    const std::string prefix = family.class_prefix;
    EXPECT_EQ(Parse({{"model_type", family.name}}).architecture, family.name);
    EXPECT_EQ(Parse({{"architectures", {prefix + "Model"}}}).architecture, family.name);
    const ModelSpec spec = Parse({{"architectures", {prefix + "ForSequenceClassification"}}});
    EXPECT_EQ(spec.architecture, family.name);
    EXPECT_EQ(spec.encoder->pooling, Pooling::kClassify);
  }
  EXPECT_EQ(Parse({{"model_type", "bert"}, {"architectures", json::array()}}).architecture, "bert");
}

TEST(EncoderConfig, RobertaCountsPositionsBehindThePaddingId) {
  const ModelSpec spec = Parse({{"architectures", {"XLMRobertaModel"}},
                                {"max_position_embeddings", 514},
                                {"type_vocab_size", 1}});
  EXPECT_EQ(spec.encoder->position_offset, 2);
  EXPECT_EQ(spec.encoder->positions, 514);
  EXPECT_EQ(spec.max_context, 512);
  EXPECT_EQ(spec.encoder->token_types, 1);
  EXPECT_THAT(ErrorOf({{"model_type", "roberta"}, {"max_position_embeddings", 2}}),
              HasSubstr("max_position_embeddings (2)"));
}

TEST(EncoderConfig, LabelsAreInOrderOfTheirIds) {
  const json labels = {{"1", "b"}, {"10", "k"}, {"0", "a"}, {"2", "c"}, {"3", "d"}, {"4", "e"},
                       {"5", "f"}, {"6", "g"},  {"7", "h"}, {"8", "i"}, {"9", "j"}};
  EXPECT_THAT(Parse(Classifier({{"id2label", labels}})).encoder->labels,
              ElementsAre("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"));
  EXPECT_THAT(Parse(Classifier({{"num_labels", 3}})).encoder->labels,
              ElementsAre("LABEL_0", "LABEL_1", "LABEL_2"));
  EXPECT_EQ(Parse(Classifier()).encoder->labels.size(), 2u);
  EXPECT_THAT(ErrorOf(Classifier({{"id2label", {{"0", "a"}, {"2", "c"}}}})),
              HasSubstr("none for id 1"));
  EXPECT_THAT(ErrorOf(Classifier({{"id2label", {{"0", 7}}}})), HasSubstr("id2label.0"));
  EXPECT_THAT(ErrorOf(Classifier({{"id2label", {"a", "b"}}})), HasSubstr("id2label"));
  EXPECT_THAT(ErrorOf(Classifier({{"id2label", json::object()}})), HasSubstr("no label"));
}

TEST(EncoderConfig, TheProblemTypeSaysWhatScoresBecome) {
  EXPECT_TRUE(Parse(Classifier()).encoder->single_label);
  EXPECT_FALSE(Parse(Classifier({{"num_labels", 1}})).encoder->single_label);
  const json multi = {{"problem_type", "multi_label_classification"}};
  EXPECT_FALSE(Parse(Classifier(multi)).encoder->single_label);
  EXPECT_THAT(ErrorOf(Classifier({{"problem_type", "regression"}})),
              AllOf(HasSubstr("problem_type \"regression\""), HasSubstr("single_label")));
}

TEST(EncoderConfig, ActivationsAreKnownByName) {
  const auto of = [](const char* name) {
    return Parse(Bert({{"hidden_act", name}})).encoder->activation;
  };
  EXPECT_EQ(of("gelu"), Activation::kGelu);
  EXPECT_EQ(of("gelu_new"), Activation::kGeluTanh);
  EXPECT_EQ(of("gelu_pytorch_tanh"), Activation::kGeluTanh);
  EXPECT_EQ(of("relu"), Activation::kRelu);
  EXPECT_THAT(ErrorOf(Bert({{"hidden_act", "mish"}})),
              AllOf(HasSubstr("hidden_act \"mish\""), HasSubstr("gelu_new")));
}

TEST(EncoderConfig, WhatItIsNotIsRefusedByName) {
  EXPECT_THAT(ErrorOf(Bert({{"architectures", {"BertForMaskedLM"}}})),
              AllOf(HasSubstr("BertForMaskedLM"), HasSubstr("BertForSequenceClassification"),
                    HasSubstr("LlamaForCausalLM")));
  EXPECT_THAT(ErrorOf(Bert({{"architectures", {"ModernBertModel"}}})),
              HasSubstr("ModernBertModel"));
  EXPECT_THAT(ErrorOf({{"model_type", "mpnet"}}), HasSubstr("\"mpnet\" is not supported"));
  EXPECT_THAT(ErrorOf(Bert({{"is_decoder", true}})), HasSubstr("is_decoder"));
  EXPECT_THAT(ErrorOf(Bert({{"position_embedding_type", "relative_key"}})),
              HasSubstr("position_embedding_type \"relative_key\""));
  EXPECT_THAT(ErrorOf(Bert({{"hidden_size", 65}})), HasSubstr("hidden_size (65)"));
  EXPECT_THAT(ErrorOf(Bert({{"type_vocab_size", 0}})), HasSubstr("type_vocab_size"));
  EXPECT_THAT(ErrorOf(Bert({{"quantization_config", {{"bits", 4}}}})), HasSubstr("quantization"));
  EXPECT_THAT(ErrorOf(Bert({{"torch_dtype", "int8"}})), HasSubstr("torch_dtype"));
}

json WithModules(const json& modules, json config = Bert()) {
  config[kSentenceTransformersKey] = modules;
  return config;
}

TEST(EncoderConfig, SentenceTransformersSayHowToPool) {
  const ModelSpec spec = Parse(WithModules({{"pooling", {{"pooling_mode_cls_token", true}}},
                                            {"normalize", true},
                                            {"max_seq_length", 128}}));
  EXPECT_EQ(spec.encoder->pooling, Pooling::kCls);
  EXPECT_TRUE(spec.encoder->normalize);
  EXPECT_EQ(spec.max_context, 128);
  EXPECT_EQ(spec.encoder->positions, 512);
  EXPECT_EQ(Parse(WithModules({{"max_seq_length", 9999}})).max_context, 512);
  EXPECT_EQ(Parse(WithModules({{"pooling", {{"pooling_mode", "cls"}}}})).encoder->pooling,
            Pooling::kCls);
  EXPECT_EQ(
      Parse(WithModules({{"pooling", {{"pooling_mode_mean_tokens", true}}}})).encoder->pooling,
      Pooling::kMean);
  // A language model's checkpoint that is published as an embedder.
  EXPECT_EQ(Parse(WithModules(json::object(), Bert({{"architectures", {"RobertaForMaskedLM"}}})))
                .architecture,
            "roberta");
}

TEST(EncoderConfig, OtherPoolingsAreRefusedByName) {
  EXPECT_THAT(ErrorOf(WithModules({{"pooling", {{"pooling_mode_max_tokens", true}}}})),
              HasSubstr("pooling.pooling_mode \"max_tokens\" is not supported"));
  EXPECT_THAT(
      ErrorOf(WithModules(
          {{"pooling", {{"pooling_mode_cls_token", true}, {"pooling_mode_mean_tokens", true}}}})),
      HasSubstr("cls_token+mean_tokens"));
  EXPECT_THAT(ErrorOf(WithModules({{"pooling", {{"pooling_mode_cls_token", 1}}}})),
              HasSubstr("pooling_mode_cls_token"));
  EXPECT_THAT(ErrorOf(WithModules({{"max_seq_length", "long"}})), HasSubstr("max_seq_length"));
  EXPECT_THAT(ErrorOf(WithModules({{"pooling", 3}})), HasSubstr("pooling is not an object"));
}

}  // namespace
}  // namespace penstock
