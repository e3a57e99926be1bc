// Against what the reference library did (tests/golden/make_tokenizer_golden.py).

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"
#include "server/text/byte_alphabet.h"
#include "server/text/decoder.h"
#include "server/text/normalizer.h"
#include "server/text/pre_tokenizer.h"
#include "server/text/text_stream.h"
#include "server/text/unicode.h"
#include "tests/text/files.h"

namespace penstock {
namespace {

using nlohmann::json;

std::string InputOf(const json& test) {
  if (test.contains("text")) return test["text"];
  return absl::HexStringToBytes(test["bytes"].get<std::string>());
}

std::string Streamed(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool skip) {
  TextStreamOptions options;
  options.skip_special_tokens = skip;
  TextStream stream(tokenizer, options);
  std::string text;
  for (const int32_t id : ids) text += stream.Add(id);
  return text + stream.Finish();
}

class TokenizerGolden : public testing::TestWithParam<std::string> {};

TEST_P(TokenizerGolden, EqualsTheReference) {
  const auto tokenizer = LoadTokenizer(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  const json cases = ReadTokenizerJson(GetParam() + ".cases.json");
  ASSERT_GE(cases.size(), 100u);
  for (const json& test : cases) {
    const std::string input = InputOf(test);
    SCOPED_TRACE(absl::CEscape(input));
    const EncodeOptions options{test.value("add_special_tokens", true),
                                test.value("parse_special_tokens", true)};
    const auto ids = tokenizer->Encode(input, options);
    ASSERT_EQ(ids, test["ids"].get<std::vector<int32_t>>());
    EXPECT_EQ(ReplaceInvalidUtf8(tokenizer->Decode(ids, false)), test["decoded"]);
    EXPECT_EQ(ReplaceInvalidUtf8(tokenizer->Decode(ids, true)), test["decoded_plain"]);
    EXPECT_EQ(Streamed(*tokenizer, ids, false), test["decoded"]);
    EXPECT_EQ(Streamed(*tokenizer, ids, true), test["decoded_plain"]);
  }
}

TEST_P(TokenizerGolden, PiecesMakeTheWhole) {
  const auto tokenizer = LoadTokenizer(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  for (const json& test : ReadTokenizerJson(GetParam() + ".cases.json")) {
    const auto ids = test["ids"].get<std::vector<int32_t>>();
    std::string pieces;
    for (size_t i = 0; i < ids.size(); ++i) pieces += tokenizer->Bytes(ids[i], i == 0);
    EXPECT_EQ(pieces, tokenizer->Decode(ids, false));
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerGolden, testing::ValuesIn(TokenizerNames()),
                         [](const auto& test) {
                           std::string name = test.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

class InputGolden : public testing::TestWithParam<std::string> {};

TEST_P(InputGolden, EqualsTheReference) {
  const auto tokenizer = LoadTokenizer(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  const json cases = ReadTokenizerJson(GetParam() + ".inputs.json");
  ASSERT_GE(cases.size(), 50u);
  for (const json& test : cases) {
    SCOPED_TRACE(test);
    const std::string text = test["text"];
    const std::string pair = test.value("pair", "");
    const Encoding encoding = tokenizer->EncodeInput(
        text, test.contains("pair") ? std::optional<absl::string_view>(pair) : std::nullopt,
        test["max_tokens"].get<size_t>());
    EXPECT_EQ(encoding.ids, test["ids"].get<std::vector<int32_t>>());
    EXPECT_EQ(encoding.types, test["types"].get<std::vector<int32_t>>());
  }
}

INSTANTIATE_TEST_SUITE_P(All, InputGolden,
                         testing::Values("bert", "roberta", "unigram", "llama3", "gpt2"),
                         [](const auto& test) { return std::string(test.param); });

class LosslessGolden : public testing::TestWithParam<std::string> {};

TEST_P(LosslessGolden, DecodingGivesTheTextBack) {
  const auto tokenizer = LoadTokenizer(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  for (const json& test : ReadTokenizerJson(GetParam() + ".cases.json")) {
    const std::string text = ReplaceInvalidUtf8(InputOf(test));
    const auto ids = tokenizer->Encode(text, {.add_special_tokens = false});
    EXPECT_EQ(tokenizer->Decode(ids, false), text);
  }
}

INSTANTIATE_TEST_SUITE_P(ByteLevel, LosslessGolden,
                         testing::Values("gpt2", "smollm2", "llama3", "gpt4o"),
                         [](const auto& test) { return std::string(test.param); });

TEST(PreTokenizerGolden, EqualsTheReference) {
  RegexScratch scratch;
  for (const json& group : ReadTokenizerJson("pre_tokenizers.json")) {
    SCOPED_TRACE(group["pre_tokenizer"].dump());
    const auto pre_tokenizer = PreTokenizer::FromJson(&group["pre_tokenizer"]);
    ASSERT_TRUE(pre_tokenizer.ok()) << pre_tokenizer.status();
    for (const json& test : group["cases"]) {
      const std::string text = test["text"];
      std::vector<std::string> pieces;
      pre_tokenizer->Cut({text, true}, scratch, [&](TextPiece piece) {
        pieces.push_back(pre_tokenizer->byte_level() ? ToByteAlphabet(piece.text)
                                                     : std::string(piece.text));
      });
      EXPECT_EQ(pieces, test["pieces"].get<std::vector<std::string>>()) << text;
    }
  }
}

TEST(NormalizerGolden, EqualsTheReference) {
  RegexScratch scratch;
  for (const json& group : ReadTokenizerJson("normalizers.json")) {
    SCOPED_TRACE(group["normalizer"].dump());
    const auto normalizer = Normalizer::FromJson(&group["normalizer"]);
    ASSERT_TRUE(normalizer.ok()) << normalizer.status();
    for (const json& test : group["cases"]) {
      const std::string text = test["text"];
      std::string buffer;
      EXPECT_EQ(normalizer->Apply(text, scratch, &buffer), test["normalized"].get<std::string>())
          << text;
    }
  }
}

TEST(DecoderGolden, EqualsTheReference) {
  for (const json& group : ReadTokenizerJson("decoders.json")) {
    SCOPED_TRACE(group["decoder"].dump());
    const auto decoder = Decoder::FromJson(&group["decoder"]);
    ASSERT_TRUE(decoder.ok()) << decoder.status();
    for (const json& test : group["cases"]) {
      std::string text;
      bool first = true;
      for (const std::string token : test["tokens"]) {
        text += decoder->Bytes(token, first);
        first = false;
      }
      EXPECT_EQ(ReplaceInvalidUtf8(text), test["text"].get<std::string>()) << test["tokens"];
    }
  }
}

}  // namespace
}  // namespace penstock
