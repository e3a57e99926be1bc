// What a tokenizer.json means and what is refused.

#include "server/text/tokenizer.h"

#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/text/unicode.h"
#include "tests/text/files.h"

namespace penstock {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<int32_t>;

// One token per ASCII letter a-e (ids 0-4), "▁" (5), then the added tokens.
json SmallDocument(const json::array_t& added) {
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"model",
           {{"type", "BPE"},
            {"vocab", {{"a", 0}, {"b", 1}, {"c", 2}, {"d", 3}, {"e", 4}, {"\u2581", 5}}},
            {"merges", json::array()}}}};
}

json Added(const std::string& content, json flags) {
  flags["content"] = content;
  if (!flags.contains("normalized")) flags["normalized"] = false;
  return flags;
}

std::unique_ptr<Tokenizer> Load(const json& document) {
  auto tokenizer = Tokenizer::FromJson(document.dump());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

std::string ErrorOf(const json& document) {
  const auto tokenizer = Tokenizer::FromJson(document.dump());
  EXPECT_FALSE(tokenizer.ok()) << document;
  return std::string(tokenizer.status().message());
}

TEST(AddedTokens, LeftmostThenLongest) {
  const auto tokenizer =
      Load(SmallDocument({Added("ab", {}), Added("abc", {}), Added("bcde", {})}));
  EXPECT_THAT(tokenizer->Encode("abcde", {}), ElementsAre(7, 3, 4));
  EXPECT_THAT(tokenizer->Encode("bcdeab", {}), ElementsAre(8, 6));
  EXPECT_THAT(tokenizer->Encode("abd", {}), ElementsAre(6, 3));
}

TEST(AddedTokens, KeepTheModelsIdsAndFollowBehindIt) {
  const auto tokenizer = Load(SmallDocument(
      {Added("<x>", {{"id", 99}}), Added("c", {{"id", 50}}), Added("", {}), Added("<y>", {})}));
  EXPECT_THAT(tokenizer->Encode("<x>c<y>", {}), ElementsAre(6, 2, 7));
  EXPECT_EQ(tokenizer->vocab_size(), 8);
}

TEST(AddedTokens, StripWhiteSpace) {
  const auto tokenizer =
      Load(SmallDocument({Added("<l>", {{"lstrip", true}}), Added("<r>", {{"rstrip", true}})}));
  EXPECT_THAT(tokenizer->Encode("a \u3000<l>b", {}), ElementsAre(0, 6, 1));
  EXPECT_THAT(tokenizer->Encode("<r> \n<l> a", {}), ElementsAre(7, 6, 0));
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("a <l>", {}), false), "a <l>");
}

// Each token of a run takes all the white space; that must not cost a scan of the run each time.
TEST(AddedTokens, RunsOfWhiteSpaceTokensAreLinear) {
  const auto tokenizer = Load(SmallDocument({Added(" ", {{"lstrip", true}, {"rstrip", true}})}));
  EXPECT_THAT(tokenizer->Encode("a   b", {}), ElementsAre(0, 6, 6, 6, 1));
  EXPECT_EQ(tokenizer->Encode(std::string(1'000'000, ' '), {}).size(), 1'000'000u);
}

TEST(AddedTokens, SingleWords) {
  const auto tokenizer = Load(SmallDocument({Added("ab", {{"single_word", true}})}));
  EXPECT_THAT(tokenizer->Encode("ab abc-ab", {}), ElementsAre(6, 0, 1, 2, 6));
  EXPECT_THAT(tokenizer->Encode("ab\u0301", {}), ElementsAre(0, 1));
}

TEST(AddedTokens, NormalizedOnesAreFoundBehindTheNormalizer) {
  json document = SmallDocument({Added("DE", {{"normalized", true}}), Added("AB", {})});
  document["normalizer"] = {{"type", "Lowercase"}};
  const auto tokenizer = Load(document);
  EXPECT_THAT(tokenizer->Encode("dEde", {}), ElementsAre(6, 6));
  EXPECT_THAT(tokenizer->Encode("ABab", {}), ElementsAre(7, 0, 1));
}

TEST(AddedTokens, SpecialOnesAsText) {
  const auto tokenizer =
      Load(SmallDocument({Added("<a>", {{"special", true}}), Added("<b>", {{"special", false}})}));
  EXPECT_THAT(tokenizer->Encode("<a>c<b>", {}), ElementsAre(6, 2, 7));
  EXPECT_THAT(tokenizer->Encode("<a>c<b>", {.parse_special_tokens = false}), ElementsAre(0, 2, 7));
  EXPECT_TRUE(tokenizer->IsSpecial(6));
  EXPECT_FALSE(tokenizer->IsSpecial(7));
  EXPECT_EQ(tokenizer->Decode({6, 2, 7}, true), "c <b>");
}

// dolphin-2.8-mistral's <|im_start|><|im_end|>\n must not gain a space mark: Metaspace "first".
TEST(Metaspace, PrefixOnlyWhereTheTextBegins) {
  json document = SmallDocument({Added("<s>", {{"special", true}})});
  document["pre_tokenizer"] = {{"type", "Metaspace"},
                               {"replacement", "\u2581"},
                               {"prepend_scheme", "first"},
                               {"split", false}};
  const auto first = Load(document);
  EXPECT_THAT(first->Encode("a<s>a", {}), ElementsAre(5, 0, 6, 0));
  EXPECT_THAT(first->Encode("<s>a", {}), ElementsAre(6, 0));
  EXPECT_THAT(first->Encode(" a", {}), ElementsAre(5, 0));
  document["pre_tokenizer"]["prepend_scheme"] = "always";
  EXPECT_THAT(Load(document)->Encode("a<s>a", {}), ElementsAre(5, 0, 6, 5, 0));
}

// OpenChat-3.5's <s>G is <s> ▁G: the normalizer prepends behind every special token.
TEST(Prepend, PrefixBehindEverySpecialToken) {
  json document = SmallDocument({Added("<s>", {{"special", true}})});
  document["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers",
       {{{"type", "Prepend"}, {"prepend", "\u2581"}},
        {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}}}};
  const auto tokenizer = Load(document);
  EXPECT_THAT(tokenizer->Encode("<s>a", {}), ElementsAre(6, 5, 0));
  EXPECT_THAT(tokenizer->Encode(" a", {}), ElementsAre(5, 5, 0));
  EXPECT_THAT(tokenizer->Encode("", {}), ElementsAre());
}

TEST(PostProcessor, AddsItsTokensOnlyWhenAsked) {
  json document =
      SmallDocument({Added("<s>", {{"special", true}}), Added("</s>", {{"special", true}})});
  document["post_processor"] = {
      {"type", "Sequence"},
      {"processors",
       {{{"type", "ByteLevel"}},
        {{"type", "TemplateProcessing"},
         {"single",
          {{{"SpecialToken", {{"id", "<s>"}}}},
           {{"Sequence", {{"id", "A"}}}},
           {{"SpecialToken", {{"id", "</s>"}}}}}},
         {"special_tokens", {{"<s>", {{"ids", {6}}}}, {"</s>", {{"ids", {7, 7}}}}}}}}}};
  const auto tokenizer = Load(document);
  EXPECT_THAT(tokenizer->Encode("a", {}), ElementsAre(6, 0, 7, 7));
  EXPECT_THAT(tokenizer->Encode("", {}), ElementsAre(6, 7, 7));
  EXPECT_THAT(tokenizer->Encode("a", {.add_special_tokens = false}), ElementsAre(0));
  // Text that begins with the token already gets it once only when the caller says so.
  EXPECT_THAT(tokenizer->Encode("<s>a", {.add_special_tokens = false}), ElementsAre(6, 0));
  document["post_processor"] = {
      {"type", "BertProcessing"}, {"cls", {"<s>", 6}}, {"sep", {"</s>", 7}}};
  EXPECT_THAT(Load(document)->Encode("a", {}), ElementsAre(6, 0, 7));
}

TEST(Decode, WithoutADecoderTokensAreJoinedBySpaces) {
  const auto tokenizer = Load(SmallDocument({}));
  EXPECT_EQ(tokenizer->Decode({0, 1, 0}, false), "a b a");
  EXPECT_EQ(tokenizer->Bytes(0, true) + tokenizer->Bytes(1, false), "a b");
}

TEST(Decode, UnknownIdsHaveNoBytes) {
  const auto tokenizer = ByteTokenizer({"<s>"});
  for (const int32_t id : {-1, 257, 1 << 30, -(1 << 30)}) {
    EXPECT_EQ(tokenizer->Bytes(id, false), "");
    EXPECT_FALSE(tokenizer->IsSpecial(id));
  }
  EXPECT_EQ(tokenizer->Decode({'a', 5000, 256, 'b'}, true), "ab");
}

TEST(Encode, InvalidUtf8ReadsAsReplacement) {
  const auto tokenizer = ByteTokenizer({});
  EXPECT_EQ(tokenizer->Encode("\xE6\xAD\xAA", {}), (Ids{0xE6, 0xAD, 0xAA}));
  EXPECT_EQ(tokenizer->Encode("\xE6\xAD", {}), (Ids{0xEF, 0xBF, 0xBD}));
  EXPECT_EQ(tokenizer->Encode(std::string("\0", 1), {}), (Ids{0}));
}

TEST(Encode, LongRunsWithoutSpaces) {
  for (const std::string& name : TokenizerNames()) {
    const auto tokenizer = LoadTokenizer(name);
    const std::string text(300'000, 'a');
    const Ids ids = tokenizer->Encode(text, {.add_special_tokens = false});
    EXPECT_EQ(tokenizer->Decode(ids, false), text) << name;
  }
}

TEST(Encode, ThreadsShareATokenizer) {
  const auto tokenizer = LoadTokenizer("qwen2");
  const json cases = ReadTokenizerJson("qwen2.cases.json");
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (int& count : wrong) {
    threads.emplace_back([&tokenizer, &cases, &count] {
      for (const json& test : cases) {
        if (!test.contains("text") || test.contains("add_special_tokens")) continue;
        if (test.contains("parse_special_tokens")) continue;
        count += tokenizer->Encode(test["text"].get<std::string>(), {}) != test["ids"].get<Ids>();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0, 0));
}

TEST(FromJson, RefusesWhatIsNoTokenizer) {
  for (const char* text : {"", "{", "[]", "null", "7", "\"x\"", "{}", "\xFF", "{\"model\":3}",
                           "{\"model\":{\"type\":\"BPE\"}}"}) {
    EXPECT_FALSE(Tokenizer::FromJson(text).ok()) << text;
  }
}

TEST(FromJson, ErrorsNameTheTypeOrTheField) {
  const json good = SmallDocument({});
  const auto with = [&good](const char* pointer, const json& value) {
    json document = good;
    document[json::json_pointer(pointer)] = value;
    return ErrorOf(document);
  };
  EXPECT_THAT(with("/model/type", "Unigram"), HasSubstr("Unigram"));
  EXPECT_THAT(with("/model/type", "WordPiece"), HasSubstr("WordPiece"));
  EXPECT_THAT(with("/model/vocab/a", -1), HasSubstr("'a'"));
  EXPECT_THAT(with("/model/vocab/a", 1 << 30), HasSubstr("'a'"));
  EXPECT_THAT(with("/model/vocab/a", "x"), HasSubstr("'a'"));
  EXPECT_THAT(with("/model/merges", {"ab"}), HasSubstr("merges"));
  EXPECT_THAT(with("/model/merges", {{"a", "b", "c"}}), HasSubstr("merges"));
  EXPECT_THAT(with("/model/merges", json::array({json::array({"a", "b"})})), HasSubstr("merge 0"));
  EXPECT_THAT(with("/model/dropout", 0.1), HasSubstr("dropout"));
  EXPECT_THAT(with("/model/end_of_word_suffix", "</w>"), HasSubstr("end_of_word_suffix"));
  EXPECT_THAT(with("/model/byte_fallback", 1), HasSubstr("byte_fallback"));
  EXPECT_THAT(with("/version", "2.0"), HasSubstr("version"));
  EXPECT_THAT(with("/added_tokens", {{{"id", 3}}}), HasSubstr("content"));
  EXPECT_THAT(with("/normalizer", {{"type", "Precompiled"}}), HasSubstr("Precompiled"));
  EXPECT_THAT(with("/normalizer", {{"type", "Replace"}}), HasSubstr("pattern"));
  EXPECT_THAT(with("/pre_tokenizer", {{"type", "UnicodeScripts"}}), HasSubstr("UnicodeScripts"));
  EXPECT_THAT(with("/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "("}}}}),
              HasSubstr("'('"));
  EXPECT_THAT(with("/decoder", {{"type", "CTC"}}), HasSubstr("CTC"));
  EXPECT_THAT(with("/post_processor", {{"type", "TemplateProcessing"}, {"single", json::array()}}),
              HasSubstr("single"));
}

TEST(FromJson, TemplateMustStayInTheVocabulary) {
  json document = SmallDocument({});
  document["post_processor"] = {{"type", "BertProcessing"}, {"cls", {"a", 0}}, {"sep", {"x", 6}}};
  EXPECT_THAT(ErrorOf(document), HasSubstr("token 6"));
}

TEST(FromJson, DeepNestingIsAnError) {
  json nested = {{"type", "NFC"}};
  for (int i = 0; i < 300; ++i) {
    nested = {{"type", "Sequence"}, {"normalizers", json::array({std::move(nested)})}};
  }
  json document = SmallDocument({});
  document["normalizer"] = std::move(nested);
  EXPECT_THAT(ErrorOf(document), HasSubstr("nested"));
}

}  // namespace
}  // namespace penstock
