#include "shard/checkpoint/sentence_transformers.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/checkpoint/checkpoint.h"
#include "tests/checkpoint/files.h"

namespace penstock {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class SentenceTransformersTest : public testing::Test {
 protected:
  SentenceTransformersTest() {
    folder_.Write("config.json", R"({"model_type": "bert", "sentence_transformers_modules": 7})");
    folder_.Write("model.safetensors", SafetensorsFile("{}", ""));
    std::filesystem::create_directory(folder_.path() + "/1_Pooling");
    folder_.Write("1_Pooling/config.json", R"({"pooling_mode_cls_token": true})");
  }
  void WriteModules(const std::string& more = "") {
    folder_.Write("modules.json",
                  R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
                      {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"})" +
                      more + "]");
  }
  json Modules() {
    const auto checkpoint = Checkpoint::Open(folder_.path());
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    if (!checkpoint.ok()) return {};
    return (*checkpoint)->config().value(kSentenceTransformersKey, json());
  }
  std::string Refusal() {
    const auto checkpoint = Checkpoint::Open(folder_.path());
    EXPECT_FALSE(checkpoint.ok());
    return std::string(checkpoint.status().message());
  }

  TempFolder folder_;
};

TEST_F(SentenceTransformersTest, WithoutModulesThereIsNothingAndNoFileCanPretend) {
  EXPECT_TRUE(Modules().is_null());
}

TEST_F(SentenceTransformersTest, PoolingNormalizationAndLengthAreInOneObject) {
  WriteModules();
  EXPECT_EQ(Modules(), json::parse(R"({"normalize": false,
                                       "pooling": {"pooling_mode_cls_token": true}})"));
  WriteModules(R"(, {"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"})");
  folder_.Write("sentence_bert_config.json", R"({"max_seq_length": 256})");
  EXPECT_EQ(Modules(), json::parse(R"({"normalize": true, "max_seq_length": 256,
                                       "pooling": {"pooling_mode_cls_token": true}})"));
  folder_.Write("sentence_bert_config.json", R"({"max_seq_length": null})");
  EXPECT_FALSE(Modules().contains("max_seq_length"));
}

TEST_F(SentenceTransformersTest, OtherModulesAreRefusedByName) {
  WriteModules(R"(, {"path": "2_Dense", "type": "sentence_transformers.models.Dense"})");
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("modules.json"), HasSubstr("models.Dense\" is not")));
  folder_.Write("modules.json", R"([{"path": "0_Transformer", "type": "x.Transformer"}])");
  EXPECT_THAT(Refusal(), HasSubstr("the Transformer is in 0_Transformer"));
}

TEST_F(SentenceTransformersTest, BrokenFilesAreNamed) {
  WriteModules();
  folder_.Write("1_Pooling/config.json", "{");
  EXPECT_THAT(Refusal(), HasSubstr("1_Pooling/config.json"));
  folder_.Write("1_Pooling/config.json", "{}");
  folder_.Write("sentence_bert_config.json", "no JSON");
  EXPECT_THAT(Refusal(), HasSubstr("sentence_bert_config.json"));
  folder_.Write("modules.json", R"({"path": ""})");
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("modules.json"), HasSubstr("no list")));
  for (const char* entry : {"3", "{}", R"({"type": 5})"}) {
    folder_.Write("modules.json", std::string("[") + entry + "]");
    EXPECT_THAT(Refusal(), HasSubstr("module \"\" is not supported")) << entry;
  }
  for (const char* path : {"", ".", "..", "../other", "/etc", "a/b"}) {
    folder_.Write("modules.json",
                  std::string(R"([{"type": "x.Pooling", "path": ")") + path + "\"}]");
    EXPECT_THAT(Refusal(), HasSubstr("the path of Pooling")) << path;
  }
}

}  // namespace
}  // namespace penstock
