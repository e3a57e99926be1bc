// GGUF metadata against the tokenizer.json that says the same.

#include "server/text/gguf_tokenizer.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
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

// Others read it, too, whose parser takes no token and no byte level without all of its fields.
TEST(GgufTokenizer, TheDocumentSaysEveryField) {
  for (const char* pre : {"gpt-2", "llama-bpe", "smollm"}) {
    json metadata = MetadataOf(ReadTokenizerJson("llama3.json"), "gpt2", pre);
    metadata["tokenizer.ggml.bos_token_id"] = 701;
    const auto document = TokenizerJsonFromGguf(metadata);
    ASSERT_TRUE(document.ok()) << document.status();
    EXPECT_EQ((*document)["version"], "1.0");
    ASSERT_FALSE((*document)["added_tokens"].empty());
    for (const json& token : (*document)["added_tokens"])
      for (const char* field :
           {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"})
        EXPECT_TRUE(token.contains(field)) << token;
    const json& pieces = (*document)["pre_tokenizer"];
    const json& last = pieces.contains("pretokenizers") ? pieces["pretokenizers"].back() : pieces;
    for (const json& level : {last, (*document)["decoder"]}) {
      EXPECT_EQ(level["type"], "ByteLevel");
      for (const char* field : {"add_prefix_space", "trim_offsets", "use_regex"})
        EXPECT_TRUE(level.contains(field)) << level;
    }
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

// As llama.cpp's converter writes BERT's tokens.
TEST(GgufTokenizer, WordPiece) {
  json metadata = MetadataOf(ReadTokenizerJson("bert.json"), "bert", "");
  for (json& token : metadata["tokenizer.ggml.tokens"]) {
    const std::string text = token;
    if (text.rfind("##", 0) == 0 && text.size() > 2) {
      token = text.substr(2);
    } else if (text.rfind('[', 0) != 0 || text.size() < 3) {
      token = "\u2581" + text;
    }
  }
  metadata["tokenizer.ggml.unknown_token_id"] = 1;
  metadata["tokenizer.ggml.cls_token_id"] = 2;
  metadata["tokenizer.ggml.seperator_token_id"] = 3;
  const auto tokenizer = FromMetadata(metadata);
  ASSERT_NE(tokenizer, nullptr);
  ExpectGolden(*tokenizer, "bert");
  metadata.erase("tokenizer.ggml.token_type");  // brackets tell
  ExpectGolden(*FromMetadata(metadata), "bert");
  metadata["tokenizer.ggml.cls_token_id"] = 7000;
  EXPECT_THAT(std::string(TokenizerJsonFromGguf(metadata).status().message()),
              HasSubstr("cls_token_id"));
}

json UnigramMetadata() {
  const json document = ReadTokenizerJson("unigram.json");
  json metadata = {
      {"tokenizer.ggml.model", "t5"},         {"tokenizer.ggml.unknown_token_id", 3},
      {"tokenizer.ggml.bos_token_id", 0},     {"tokenizer.ggml.eos_token_id", 2},
      {"tokenizer.ggml.add_bos_token", true}, {"tokenizer.ggml.token_type", {3, 3, 3, 2}}};
  for (const json& entry : document["model"]["vocab"]) {
    metadata["tokenizer.ggml.tokens"].push_back(entry[0]);
    metadata["tokenizer.ggml.scores"].push_back(entry[1]);
  }
  while (metadata["tokenizer.ggml.token_type"].size() < metadata["tokenizer.ggml.tokens"].size()) {
    metadata["tokenizer.ggml.token_type"].push_back(1);
  }
  std::string bytes;
  EXPECT_TRUE(absl::Base64Unescape(
      document["normalizer"]["normalizers"][0]["precompiled_charsmap"].get<std::string>(), &bytes));
  for (const char byte : bytes) {
    metadata["tokenizer.ggml.precompiled_charsmap"].push_back(static_cast<unsigned char>(byte));
  }
  return metadata;
}

TEST(GgufTokenizer, Unigram) {
  json metadata = UnigramMetadata();
  const auto tokenizer = FromMetadata(metadata);
  ASSERT_NE(tokenizer, nullptr);
  for (const json& test : ReadTokenizerJson("unigram.inputs.json")) {
    const std::string text = test["text"];
    const std::string pair = test.value("pair", "");
    const Encoding encoding = tokenizer->EncodeInput(
        text, test.contains("pair") ? std::optional<absl::string_view>(pair) : std::nullopt,
        test["max_tokens"].get<size_t>());
    EXPECT_EQ(encoding.ids, test["ids"].get<Ids>()) << test;
  }
  const auto wide = tokenizer->Encode("  \uFF21\u3000\uFB01  ", {});
  EXPECT_EQ(wide, tokenizer->Encode("A fi", {}));
  metadata["tokenizer.ggml.precompiled_charsmap"] = {1, 2, "x"};
  EXPECT_THAT(std::string(TokenizerJsonFromGguf(metadata).status().message()),
              HasSubstr("precompiled_charsmap"));
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
  EXPECT_THAT(error("tokenizer.ggml.model", "rwkv"), HasSubstr("'rwkv'"));
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
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);

  std::filesystem::create_directories(folder + "/tokenizer.json");
  const auto no_file = Tokenizer::Load(FolderCheckpoint(folder));
  EXPECT_THAT(std::string(no_file.status().message()), HasSubstr("not a regular file"));
  std::filesystem::remove_all(folder + "/tokenizer.json");

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

// BERT's files without a tokenizer.json.
TEST(TokenizerLoad, FromAVocabularyFile) {
  const std::string folder =
      testing::TempDir() + std::to_string(getpid()) + "_penstock_vocabulary_load";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const json vocab = ReadTokenizerJson("bert.json")["model"]["vocab"];
  std::vector<std::string> tokens(vocab.size());
  for (const auto& [token, id] : vocab.items()) tokens[id.get<size_t>()] = token;
  {
    std::ofstream file(folder + "/vocab.txt");
    for (const std::string& token : tokens) file << token << "\n";
  }
  const auto load = [&folder](const json& config) {
    if (!config.is_null()) std::ofstream(folder + "/tokenizer_config.json") << config;
    return Tokenizer::Load(FolderCheckpoint(folder));
  };
  const auto plain = load(nullptr);
  ASSERT_TRUE(plain.ok()) << plain.status();
  const Encoding pair = (*plain)->EncodeInput("the", "\u00c9A", 0);
  EXPECT_EQ(pair.types, Ids({0, 0, 0, 1, 1, 1}));
  EXPECT_EQ((*plain)->Decode(pair.ids, true), "the ea");
  const auto cased = load({{"do_lower_case", false}, {"cls_token", {{"content", "[MASK]"}}}});
  ASSERT_TRUE(cased.ok()) << cased.status();
  EXPECT_THAT((*cased)->Encode("THE", {}), ElementsAre(4, 1, 3));  // upper case is unknown
  const auto error = [&load](const json& config) {
    return std::string(load(config).status().message());
  };
  EXPECT_THAT(error({{"tokenizer_class", "CamembertTokenizer"}}), HasSubstr("CamembertTokenizer"));
  EXPECT_THAT(error({{"sep_token", "<none>"}}), HasSubstr("<none>"));
  EXPECT_THAT(error({{"do_lower_case", 7}}), HasSubstr("do_lower_case"));
  EXPECT_THAT(error(json::array()), HasSubstr("tokenizer_config.json"));
  std::ofstream(folder + "/vocab.txt") << "a\n\xFF\n";
  EXPECT_THAT(error(json::object()), HasSubstr("line 2"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace penstock
