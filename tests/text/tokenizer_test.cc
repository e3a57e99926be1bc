// What a tokenizer.json means and what is refused.

#include "server/text/tokenizer.h"

#include <optional>
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

// What a normalizer removes at the beginning counts as something that came before.
TEST(Metaspace, NoPrefixWhereTheBeginningWasRemoved) {
  json document = SmallDocument({});
  document["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "first"}};
  const json removing[] = {
      {{"type", "Strip"}},
      {{"type", "Nmt"}},
      {{"type", "StripAccents"}},
      {{"type", "BertNormalizer"}, {"strip_accents", true}},
      {{"type", "Replace"}, {"pattern", {{"Regex", "[ \\x01\u0301]"}}}, {"content", ""}}};
  for (const json& normalizer : removing) {
    document["normalizer"] = normalizer;
    const auto tokenizer = Load(document);
    const std::string type = normalizer["type"];
    const char* removed = type == "StripAccents" ? "\u0301" : type == "Strip" ? " " : "\x01";
    EXPECT_THAT(tokenizer->Encode("a", {}), ElementsAre(5, 0)) << type;
    EXPECT_THAT(tokenizer->Encode(std::string(removed) + "a", {}), ElementsAre(0)) << type;
  }
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

Ids IdsOf(const Encoding& encoding) { return encoding.ids; }

json Piece(const char* kind, const std::string& id, int type) {
  return {{kind, {{"id", id}, {"type_id", type}}}};
}

TEST(EncodeInput, WithoutAPostProcessorTheTextsFollowOneAnother) {
  const auto tokenizer = Load(SmallDocument({}));
  EXPECT_THAT(IdsOf(tokenizer->EncodeInput("ab", std::nullopt, 0)), ElementsAre(0, 1));
  const Encoding pair = tokenizer->EncodeInput("ab", "c", 0);
  EXPECT_THAT(pair.ids, ElementsAre(0, 1, 2));
  EXPECT_THAT(pair.types, ElementsAre(0, 0, 1));
}

TEST(EncodeInput, TemplatesMayTurnTheTextsAround) {
  json document = SmallDocument({Added("<s>", {{"special", true}})});
  document["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {Piece("SpecialToken", "<s>", 3), Piece("Sequence", "A", 2)}},
      {"pair",
       {Piece("Sequence", "B", 1), Piece("SpecialToken", "<s>", 1), Piece("Sequence", "A", 0)}},
      {"special_tokens", {{"<s>", {{"ids", {6, 6}}}}}}};
  const auto tokenizer = Load(document);
  EXPECT_THAT(tokenizer->EncodeInput("ab", std::nullopt, 0).types, ElementsAre(3, 3, 2, 2));
  const Encoding pair = tokenizer->EncodeInput("ab", "cd", 0);
  EXPECT_THAT(pair.ids, ElementsAre(2, 3, 6, 6, 0, 1));
  EXPECT_THAT(pair.types, ElementsAre(1, 1, 1, 1, 0, 0));
  EXPECT_THAT(IdsOf(tokenizer->EncodeInput("abc", "cde", 5)), ElementsAre(2, 3, 6, 6, 0));
}

TEST(EncodeInput, TheLongerTextLosesTokensFirst) {
  json document = SmallDocument({Added("[CLS]", {}), Added("[SEP]", {})});
  document["post_processor"] = {
      {"type", "BertProcessing"}, {"cls", {"[CLS]", 6}}, {"sep", {"[SEP]", 7}}};
  const auto tokenizer = Load(document);
  const auto cut = [&tokenizer](const char* text, const char* pair, size_t limit) {
    return IdsOf(tokenizer->EncodeInput(text, pair, limit));
  };
  EXPECT_THAT(cut("abcde", "a", 7), ElementsAre(6, 0, 1, 2, 7, 0, 7));
  EXPECT_THAT(cut("a", "abcde", 7), ElementsAre(6, 0, 7, 0, 1, 2, 7));
  EXPECT_THAT(cut("abcde", "abcd", 8), ElementsAre(6, 0, 1, 2, 7, 0, 1, 7));
  EXPECT_THAT(cut("abcd", "abcd", 8), ElementsAre(6, 0, 1, 7, 0, 1, 2, 7));
  EXPECT_THAT(cut("ab", "ab", 2), ElementsAre(6, 7, 7));  // special tokens stay
  EXPECT_THAT(IdsOf(tokenizer->EncodeInput("abcde", std::nullopt, 4)), ElementsAre(6, 0, 1, 7));
  EXPECT_THAT(IdsOf(tokenizer->EncodeInput("a[SEP]b", std::nullopt, 0)),
              ElementsAre(6, 0, 7, 1, 7));
}

TEST(EncodeInput, TemplatesHoldEveryTextOnce) {
  json document = SmallDocument({Added("<s>", {})});
  const auto error = [&document](const json& single, const json& pair) {
    document["post_processor"] = {
        {"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}};
    return ErrorOf(document);
  };
  const json a = Piece("Sequence", "A", 0);
  const json b = Piece("Sequence", "B", 1);
  EXPECT_THAT(error({a, a}, {a, b}), HasSubstr("'single'"));
  EXPECT_THAT(error(json::array({a}), {a, a}), HasSubstr("'pair'"));
  EXPECT_THAT(error({a, b}, {a, b}), HasSubstr("second text"));
  EXPECT_THAT(error(json::array({a}), {a, Piece("Sequence", "C", 1)}), HasSubstr("'A' nor 'B'"));
  EXPECT_THAT(error(json::array({a}), {a, Piece("SpecialToken", "<s>", 1), b}),
              HasSubstr("special_tokens"));
  EXPECT_THAT(error(json::array({a}), {a, Piece("Sequence", "B", -1)}), HasSubstr("type_id"));
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
    const std::string expected = name == "bert" ? "[UNK]" : name == "roberta" ? " " + text : text;
    EXPECT_TRUE(tokenizer->Decode(ids, false) == expected) << name;
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
  EXPECT_THAT(with("/model/type", "WordLevel"), HasSubstr("WordLevel"));
  EXPECT_THAT(with("/model/type", "Unigram"), HasSubstr("unk_id"));
  EXPECT_THAT(with("/model/type", "WordPiece"), HasSubstr("[UNK]"));
  EXPECT_THAT(with("/model/vocab", json::object()), HasSubstr("vocabulary is empty"));
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
  EXPECT_THAT(with("/normalizer", {{"type", "Precompiled"}}), HasSubstr("precompiled_charsmap"));
  EXPECT_THAT(with("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "?"}}),
              HasSubstr("base64"));
  EXPECT_THAT(with("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "AAAAAA=="}}),
              HasSubstr("precompiled_charsmap"));
  EXPECT_THAT(with("/normalizer", {{"type", "BertNormalizer"}, {"strip_accents", "x"}}),
              HasSubstr("strip_accents"));
  EXPECT_THAT(with("/decoder", {{"type", "WordPiece"}, {"prefix", 1}}), HasSubstr("prefix"));
  EXPECT_THAT(with("/normalizer", {{"type", "Replace"}}), HasSubstr("pattern"));
  EXPECT_THAT(with("/pre_tokenizer", {{"type", "UnicodeScripts"}}), HasSubstr("UnicodeScripts"));
  EXPECT_THAT(with("/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "("}}}}),
              HasSubstr("'('"));
  EXPECT_THAT(with("/decoder", {{"type", "CTC"}}), HasSubstr("CTC"));
  EXPECT_THAT(with("/post_processor", {{"type", "TemplateProcessing"}, {"single", json::array()}}),
              HasSubstr("single"));
}

TEST(FromJson, ModelErrorsNameTheField) {
  const json word_piece = {{"type", "WordPiece"}, {"vocab", {{"[UNK]", 0}}}};
  const json unigram = {
      {"type", "Unigram"}, {"unk_id", 0}, {"vocab", json::array({json::array({"a", -1})})}};
  EXPECT_NE(Load({{"model", word_piece}}), nullptr);
  EXPECT_NE(Load({{"model", unigram}}), nullptr);
  const auto with = [](json model, const char* pointer, const json& value) {
    model[json::json_pointer(pointer)] = value;
    return ErrorOf({{"model", model}});
  };
  EXPECT_THAT(with(word_piece, "/max_input_chars_per_word", -1),
              HasSubstr("max_input_chars_per_word"));
  EXPECT_THAT(with(word_piece, "/continuing_subword_prefix", 1),
              HasSubstr("continuing_subword_prefix"));
  EXPECT_THAT(with(word_piece, "/unk_token", "<none>"), HasSubstr("<none>"));
  EXPECT_THAT(with(word_piece, "/vocab", json::array()), HasSubstr("vocab"));
  EXPECT_THAT(with(word_piece, "/vocab/[UNK]", 1.5), HasSubstr("[UNK]"));
  EXPECT_THAT(with(unigram, "/unk_id", nullptr), HasSubstr("unk_id"));
  EXPECT_THAT(with(unigram, "/unk_id", 1), HasSubstr("unk_id"));
  EXPECT_THAT(with(unigram, "/byte_fallback", "x"), HasSubstr("byte_fallback"));
  EXPECT_THAT(with(unigram, "/vocab", json::array()), HasSubstr("vocabulary is empty"));
  EXPECT_THAT(with(unigram, "/vocab/0", {"a"}), HasSubstr("at 0"));
  EXPECT_THAT(with(unigram, "/vocab/0/1", "x"), HasSubstr("at 0"));
}

// The reference reads -7.2147313217222795 as -7.21473132172228, so that two of it are no better
// than the token for both.
TEST(FromJson, ScoresAreReadAsTheReferenceReadsThem) {
  const auto vocab = json::parse(
      R"([["?", 0], ["b", -7.2147313217222795], ["bb", -14.42946264344456], ["c", 1e-5], ["cc", 25]])");
  const auto tokenizer = Load({{"model", {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", vocab}}}});
  EXPECT_THAT(tokenizer->Encode("bbccc", {}), ElementsAre(2, 3, 4));
}

TEST(FromJson, TheFieldsTellTheTypeOfOldFiles) {
  EXPECT_THAT(Load({{"model", {{"unk_id", 0}, {"vocab", json::array({json::array({"a", 0})})}}}})
                  ->Encode("a", {}),
              ElementsAre(0));
  const json word_piece = {{"unk_token", "[UNK]"},
                           {"continuing_subword_prefix", "##"},
                           {"max_input_chars_per_word", 100},
                           {"vocab", {{"[UNK]", 0}, {"a", 1}, {"##a", 2}}}};
  EXPECT_THAT(Load({{"model", word_piece}})->Encode("aa", {}), ElementsAre(1, 2));
}

// Words come as bytes where the vocabulary is written in the byte alphabet.
TEST(FromJson, ByteLevelWithOtherModels) {
  const json document = {
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
      {"model",
       {{"type", "WordPiece"}, {"vocab", {{"[UNK]", 0}, {"\u00c3", 1}, {"##\u00a9", 2}}}}}};
  EXPECT_THAT(Load(document)->Encode("\u00e9", {}), ElementsAre(1, 2));
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
