// GGUF metadata against the tokenizer.json that says the same.

#include "server/text/gguf_tokenizer.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/text/gguf_pre_tokenizers.h"
#include "server/text/spm_merges.h"
#include "server/text/tokenizer.h"
#include "server/text/tokenizer_json.h"
#include "shard/checkpoint/checkpoint.h"
#include "tests/text/files.h"

namespace penstock {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using Ids = std::vector<int32_t>;

// The metadata that llama.cpp's converter would write for a committed tokenizer.
json MetadataOf(const json& document, const std::string& model, const std::string& pre) {
  std::vector<std::string> tokens;
  std::vector<int> types;
  const auto set = [&](const std::string& token, size_t id, int type) {
    tokens.resize(std::max(tokens.size(), id + 1));
    types.resize(tokens.size(), 1);
    tokens[id] = token;
    types[id] = type;
  };
  for (const auto& [token, id] : document["model"]["vocab"].items()) set(token, id, 1);
  for (const json& token : document["added_tokens"]) {
    set(token["content"], token["id"], token["special"].get<bool>() ? 3 : 4);
  }
  json metadata = {{"tokenizer.ggml.model", model},
                   {"tokenizer.ggml.pre", pre},
                   {"tokenizer.ggml.tokens", tokens},
                   {"tokenizer.ggml.token_type", types}};
  if (model == "gpt2") {
    json merges = json::array();
    for (const json& merge : document["model"]["merges"]) {
      merges.push_back(merge.is_string()
                           ? merge.get<std::string>()
                           : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
    }
    metadata["tokenizer.ggml.merges"] = merges;
  }
  return metadata;
}

std::unique_ptr<Tokenizer> FromMetadata(const json& metadata) {
  const auto document = TokenizerJsonFromGguf(metadata);
  EXPECT_TRUE(document.ok()) << document.status();
  if (!document.ok()) return nullptr;
  auto tokenizer = TokenizerFromJson(*document);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

void ExpectGolden(const Tokenizer& tokenizer, const std::string& name) {
  for (const json& test : ReadTokenizerJson(name + ".cases.json")) {
    if (!test.contains("text")) continue;
    const EncodeOptions options{test.value("add_special_tokens", true),
                                test.value("parse_special_tokens", true)};
    EXPECT_EQ(tokenizer.Encode(test["text"].get<std::string>(), options), test["ids"].get<Ids>())
        << test["text"];
    EXPECT_EQ(tokenizer.Decode(test["ids"].get<Ids>(), true), test["decoded_plain"]);
  }
}

TEST(GgufTokenizer, ByteLevelFamilies) {
  const std::pair<std::string, std::string> families[] = {
      {"gpt2", "gpt-2"}, {"smollm2", "smollm"}, {"gpt4o", "gpt-4o"}};
  for (const auto& [name, pre] : families) {
    SCOPED_TRACE(name);
    const auto tokenizer = FromMetadata(MetadataOf(ReadTokenizerJson(name + ".json"), "gpt2", pre));
    ASSERT_NE(tokenizer, nullptr);
    ExpectGolden(*tokenizer, name);
  }
}

TEST(GgufTokenizer, LlamaThreeAddsBosUnlessTheFileSaysNo) {
  const json document = ReadTokenizerJson("llama3.json");
  json metadata = MetadataOf(document, "gpt2", "llama-bpe");
  metadata["tokenizer.ggml.bos_token_id"] = 701;
  const auto tokenizer = FromMetadata(metadata);
  ASSERT_NE(tokenizer, nullptr);
  ExpectGolden(*tokenizer, "llama3");
  metadata["tokenizer.ggml.add_bos_token"] = false;
  EXPECT_EQ(FromMetadata(metadata)->Encode("x", {}),
            tokenizer->Encode("x", {.add_special_tokens = false}));
  metadata["tokenizer.ggml.add_eos_token"] = true;
  metadata["tokenizer.ggml.eos_token_id"] = 702;
  EXPECT_EQ(FromMetadata(metadata)->Encode("x", {}).back(), 702);
}

TEST(GgufTokenizer, EveryNamedFamilyLoads) {
  const json document = ReadTokenizerJson("gpt2.json");
  for (const char* pre :
       {"default", "llama-bpe", "qwen2", "tekken", "gpt-4o", "deepseek-v3", "starcoder", "dbrx"}) {
    json metadata = MetadataOf(document, "gpt2", pre);
    metadata["tokenizer.ggml.bos_token_id"] = 0;
    const auto tokenizer = FromMetadata(metadata);
    ASSERT_NE(tokenizer, nullptr) << pre;
    const std::string text = "It's 12345 words, \u6c34\u304c!\n\n  x";
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text, {}), true), text) << pre;
  }
}

TEST(GgufTokenizer, DigitsGoOneByOneOrThreeByThree) {
  const json document = ReadTokenizerJson("gpt2.json");
  const auto count = [&document](const char* pre) {
    json metadata = MetadataOf(document, "gpt2", pre);
    metadata["tokenizer.ggml.bos_token_id"] = 0;
    GgufPreTokenizer family;
    EXPECT_TRUE(FindGgufPreTokenizer(pre, &family));
    return FromMetadata(metadata)->Encode("1984", {.add_special_tokens = false}).size();
  };
  EXPECT_EQ(count("smollm"), 4u);
  EXPECT_EQ(count("qwen2"), 4u);
  EXPECT_LT(count("gpt-2"), 4u);
}

// SentencePiece: scores say which merge comes first.
json SpmMetadata() {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>", "\u2581",  "a",   "b",
                                     "c",     "ab",  "bc",   "\u2581a", "abc", "<tool>"};
  std::vector<float> scores = {0, 0, 0, -9, -9, -9, -9, -2, -1, -3, -4, 0};
  std::vector<int> types = {2, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 4};
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", byte);
    tokens.emplace_back(name);
    scores.push_back(0);
    types.push_back(6);
  }
  return {{"tokenizer.ggml.model", "llama"},  {"tokenizer.ggml.tokens", tokens},
          {"tokenizer.ggml.scores", scores},  {"tokenizer.ggml.token_type", types},
          {"tokenizer.ggml.bos_token_id", 1}, {"tokenizer.ggml.unknown_token_id", 0}};
}

constexpr int32_t kFirstByte = 12;

TEST(GgufTokenizer, SentencePiece) {
  const auto tokenizer = FromMetadata(SpmMetadata());
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_THAT(tokenizer->Encode("abc", {}), ElementsAre(1, 9, 8));  // bc before ▁a before ab
  EXPECT_THAT(tokenizer->Encode("", {}), ElementsAre(1));
  EXPECT_THAT(tokenizer->Encode(" ", {.add_special_tokens = false}), ElementsAre(3, 3));
  EXPECT_THAT(tokenizer->Encode("\u00e9", {.add_special_tokens = false}),
              ElementsAre(3, kFirstByte + 0xC3, kFirstByte + 0xA9));
  EXPECT_THAT(tokenizer->Encode("<tool>a", {.add_special_tokens = false}), ElementsAre(11, 9));
  EXPECT_FALSE(tokenizer->IsSpecial(11));
  EXPECT_TRUE(tokenizer->IsSpecial(2));
  EXPECT_EQ(tokenizer->Decode({9, 3, 8, kFirstByte + 0xC3, kFirstByte + 0xA9}, true), "a bc\u00e9");
  EXPECT_EQ(tokenizer->Bytes(kFirstByte + 0xC3, false), "\xC3");
}

TEST(GgufTokenizer, SentencePieceWithoutPrefix) {
  json metadata = SpmMetadata();
  metadata["tokenizer.ggml.add_space_prefix"] = false;
  const auto tokenizer = FromMetadata(metadata);
  EXPECT_THAT(tokenizer->Encode("a", {.add_special_tokens = false}), ElementsAre(4));
  EXPECT_EQ(tokenizer->Decode({9}, true), " a");
}

TEST(MergesFromScores, BestScoreThenLongerLeftPart) {
  EXPECT_THAT(MergesFromScores({"a", "b", "ab", "aba", "ba"}, {0, 0, -3, -1, -3}),
              ElementsAre(Pair("ab", "a"), Pair("a", "ba"), Pair("a", "b"), Pair("b", "a")));
}

TEST(GgufTokenizer, ErrorsNameTheKey) {
  const json good = SpmMetadata();
  const auto error = [&good](const char* key, const json& value) {
    json metadata = good;
    metadata[key] = value;
    const auto document = TokenizerJsonFromGguf(metadata);
    EXPECT_FALSE(document.ok()) << key;
    return std::string(document.status().message());
  };
  EXPECT_THAT(error("tokenizer.ggml.model", "bert"), HasSubstr("'bert'"));
  EXPECT_THAT(error("tokenizer.ggml.tokens", "x"), HasSubstr("tokenizer.ggml.tokens"));
  EXPECT_THAT(error("tokenizer.ggml.tokens", {"a", 7}), HasSubstr("at 1"));
  EXPECT_THAT(error("tokenizer.ggml.scores", {1}), HasSubstr("tokenizer.ggml.scores"));
  EXPECT_THAT(error("tokenizer.ggml.token_type", {1}), HasSubstr("tokenizer.ggml.token_type"));
  EXPECT_THAT(error("tokenizer.ggml.bos_token_id", 5000), HasSubstr("tokenizer.ggml.bos_token_id"));
  EXPECT_THAT(error("tokenizer.ggml.bos_token_id", nullptr), HasSubstr("bos_token_id"));
  EXPECT_THAT(error("tokenizer.ggml.unknown_token_id", -1), HasSubstr("unknown_token_id"));
  json scores = good["tokenizer.ggml.scores"];
  scores[5] = NAN;
  EXPECT_THAT(error("tokenizer.ggml.scores", scores), HasSubstr("finite"));
  json unnamed = MetadataOf(ReadTokenizerJson("gpt2.json"), "gpt2", "no-such-family");
  EXPECT_THAT(std::string(TokenizerJsonFromGguf(unnamed).status().message()),
              HasSubstr("'no-such-family'"));
  EXPECT_FALSE(TokenizerJsonFromGguf(json()).ok());
}

// A checkpoint that is a folder.
class FolderCheckpoint final : public Checkpoint {
 public:
  explicit FolderCheckpoint(std::string path, json metadata = nullptr)
      : path_(std::move(path)), metadata_(std::move(metadata)) {}
  const std::string& path() const override { return path_; }
  const json& config() const override { return config_; }
  const json& metadata() const override { return metadata_; }
  std::vector<TensorInfo> Tensors() const override { return {}; }
  absl::StatusOr<TensorInfo> Find(absl::string_view) const override {
    return absl::NotFoundError("none");
  }
  absl::Status Read(absl::string_view, Range, Range, DType, void*, ReadProgress*) const override {
    return absl::NotFoundError("none");
  }

 private:
  std::string path_;
  json config_;
  json metadata_;
};

TEST(TokenizerLoad, FromAFolderOrFromMetadata) {
  const std::string folder =
      testing::TempDir() + std::to_string(getpid()) + "_penstock_tokenizer_load";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const auto missing = Tokenizer::Load(FolderCheckpoint(folder));
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr(folder));
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("tokenizer.json"));

  std::ofstream(folder + "/tokenizer.json") << ReadTokenizerFile("gpt2.json");
  const auto loaded = Tokenizer::Load(FolderCheckpoint(folder));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ExpectGolden(**loaded, "gpt2");

  std::ofstream(folder + "/tokenizer.json") << "{}";
  const auto broken = Tokenizer::Load(FolderCheckpoint(folder));
  EXPECT_THAT(std::string(broken.status().message()), HasSubstr("tokenizer.json"));
  std::filesystem::remove_all(folder);

  EXPECT_TRUE(Tokenizer::Load(FolderCheckpoint("model.gguf", SpmMetadata())).ok());
  const auto refused = Tokenizer::Load(FolderCheckpoint("model.gguf", json::object()));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("model.gguf"));
}

}  // namespace
}  // namespace penstock
