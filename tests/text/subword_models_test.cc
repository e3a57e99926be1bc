// WordPiece and unigram models on vocabularies that fit on a line, and against their definitions.

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/text/byte_trie.h"
#include "server/text/unigram_model.h"
#include "server/text/wordpiece_model.h"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<int32_t>;

Ids Tokenize(const SubwordModel& model, absl::string_view word) {
  Ids ids;
  model.Tokenize(word, *model.NewScratch(), &ids);
  return ids;
}

std::unique_ptr<WordPieceModel> WordPiece(const std::vector<std::string>& tokens,
                                          int32_t max_word_chars = 100) {
  WordPieceSpec spec;
  for (const std::string& token : tokens) {
    spec.vocab.emplace_back(token, static_cast<int32_t>(spec.vocab.size()));
  }
  spec.max_word_chars = max_word_chars;
  auto model = WordPieceModel::Build(std::move(spec));
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : nullptr;
}

std::unique_ptr<UnigramModel> Unigram(std::vector<std::pair<std::string, double>> vocab,
                                      bool byte_fallback = false) {
  auto model = UnigramModel::Build({std::move(vocab), 0, byte_fallback});
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : nullptr;
}

TEST(ByteTrie, FindsEveryKeyAndNothingElse) {
  const ByteTrie trie({{"ab", 1}, {"a", 0}, {"abc", 2}, {"", 9}, {"\xFF\x01", 3}, {"ab", 4}});
  const auto value = [&trie](absl::string_view key) {
    uint32_t node = ByteTrie::kRoot;
    for (const char byte : key) {
      node = trie.Child(node, byte);
      if (node == ByteTrie::kRoot) return -2;
    }
    return trie.value(node);
  };
  EXPECT_EQ(value("a"), 0);
  EXPECT_EQ(value("ab"), 4);  // the last of equal ones
  EXPECT_EQ(value("abc"), 2);
  EXPECT_EQ(value("\xFF\x01"), 3);
  EXPECT_EQ(value("\xFF"), -1);
  EXPECT_EQ(value(""), -1);
  EXPECT_EQ(value("b"), -2);
  EXPECT_EQ(value("abcd"), -2);
  EXPECT_EQ(ByteTrie({}).Child(ByteTrie::kRoot, 'a'), ByteTrie::kRoot);
}

TEST(WordPieceModel, LongestPieceFirst) {
  const auto model = WordPiece({"[UNK]", "un", "unaff", "##able", "##aff", "##a", "##ffable"});
  EXPECT_THAT(Tokenize(*model, "unaffable"), ElementsAre(2, 3));
  EXPECT_THAT(Tokenize(*model, "unaable"), ElementsAre(1, 5, 3));
}

TEST(WordPieceModel, AWordThatIsNotCoveredIsOneUnknownToken) {
  const auto model = WordPiece({"[UNK]", "a", "##b", "##\u00e9"});
  EXPECT_THAT(Tokenize(*model, "ab\u00e9"), ElementsAre(1, 2, 3));
  EXPECT_THAT(Tokenize(*model, "abx"), ElementsAre(0));
  EXPECT_THAT(Tokenize(*model, "ba"), ElementsAre(0));
  EXPECT_THAT(Tokenize(*model, "##b"), ElementsAre(2));  // spelled out, it begins a word, too
}

TEST(WordPieceModel, LongWordsAreUnknown) {
  const auto model = WordPiece({"[UNK]", "\u00e9", "##\u00e9"}, 3);
  EXPECT_THAT(Tokenize(*model, "\u00e9\u00e9\u00e9"), ElementsAre(1, 2, 2));
  EXPECT_THAT(Tokenize(*model, "\u00e9\u00e9\u00e9\u00e9"), ElementsAre(0));
}

TEST(WordPieceModel, ErrorsNameTheToken) {
  const auto error = [](WordPieceSpec spec) {
    return std::string(WordPieceModel::Build(std::move(spec)).status().message());
  };
  EXPECT_THAT(error({}), HasSubstr("vocabulary is empty"));
  EXPECT_THAT(error({.vocab = {{"a", 0}}}), HasSubstr("[UNK]"));
  EXPECT_THAT(error({.vocab = {{"a", 0}, {"a", 1}}}), HasSubstr("'a' twice"));
  EXPECT_THAT(error({.vocab = {{"[UNK]", 0}, {std::string(5000, 'a'), 1}}}), HasSubstr("longer"));
}

TEST(UnigramModel, BestSumOfScores) {
  const auto model = Unigram({{"<unk>", 0},
                              {"a", 0},
                              {"b", 0},
                              {"c", 0},
                              {"d", 0},
                              {"cd", 1},
                              {"ab", 2},
                              {"abc", 5},
                              {"abcd", 10}});
  EXPECT_THAT(Tokenize(*model, "abcdacdxx"), ElementsAre(8, 1, 5, 0));
  EXPECT_THAT(Tokenize(*model, "abd"), ElementsAre(6, 4));
}

TEST(UnigramModel, NeighbouringUnknownCharactersAreOneToken) {
  const auto model = Unigram({{"<unk>", 0}, {"a", -1}, {"\u00e9\u00e8", -50}});
  EXPECT_THAT(Tokenize(*model, "x\u6c34a\u00e9"), ElementsAre(0, 1, 0));
  // Worse than two unknown ones, but together those spell it.
  EXPECT_THAT(Tokenize(*Unigram({{"<unk>", -1}, {"xy", -100}, {"a", 0}}), "axya"),
              ElementsAre(2, 1, 2));
  EXPECT_THAT(Tokenize(*model, "<unk>y"), ElementsAre(0));
}

TEST(UnigramModel, BytesWhereAllOfThemExist) {
  const auto model =
      Unigram({{"<unk>", 0}, {"a", -1}, {"<0xC3>", -1}, {"<0xA9>", -1}, {"<0xE6>", -1}}, true);
  EXPECT_THAT(Tokenize(*model, "a\u00e9a"), ElementsAre(1, 2, 3, 1));
  EXPECT_THAT(Tokenize(*model, "a\u6c34\u00e9"), ElementsAre(1, 0));
}

TEST(UnigramModel, TheLastOfRepeatedTokensCounts) {
  const auto model = Unigram({{"<unk>", 0}, {"a", -1}, {"aa", -5}, {"aa", -1}});
  EXPECT_THAT(Tokenize(*model, "aa"), ElementsAre(3));
}

TEST(UnigramModel, ErrorsNameTheProblem) {
  const auto error = [](UnigramSpec spec) {
    return std::string(UnigramModel::Build(std::move(spec)).status().message());
  };
  EXPECT_THAT(error({}), HasSubstr("vocabulary is empty"));
  EXPECT_THAT(error({.vocab = {{"a", 0}}, .unk_id = 1}), HasSubstr("unk_id"));
  EXPECT_THAT(error({.vocab = {{"a", 0}}}), HasSubstr("unk_id"));
  EXPECT_THAT(error({.vocab = {{std::string(5000, 'a'), 1}}, .unk_id = 0}), HasSubstr("longer"));
}

// The best sum over all ways to cut a word, by trying all of them.
double BestSum(const std::vector<std::pair<std::string, double>>& vocab, const std::string& word) {
  if (word.empty()) return 0;
  double best = -1e9;
  for (const auto& [token, score] : vocab) {
    if (word.rfind(token, 0) != 0) continue;
    best = std::max(best, score + BestSum(vocab, word.substr(token.size())));
  }
  return best;
}

TEST(UnigramModel, EqualsItsDefinition) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::pair<std::string, double>> vocab = {{"?", -20}, {"a", -3}, {"b", -3}};
    for (int i = 0; i < 8; ++i) {
      std::string token;
      for (size_t length = 2 + random() % 4; length > 0; --length) token += "ab"[random() % 2];
      const auto same = [&token](const auto& entry) { return entry.first == token; };
      if (std::any_of(vocab.begin(), vocab.end(), same)) continue;
      vocab.emplace_back(token, -1.0 - static_cast<double>(random() % 700) / 100);
    }
    const auto model = Unigram(vocab);
    std::string word;
    for (size_t length = 1 + random() % 14; length > 0; --length) word += "ab"[random() % 2];
    double sum = 0;
    std::string spelled;
    for (const int32_t id : Tokenize(*model, word)) {
      sum += vocab[id].second;
      spelled += vocab[id].first;
    }
    EXPECT_EQ(spelled, word);
    EXPECT_NEAR(sum, BestSum(vocab, word), 1e-9) << word;
  }
}

// A word of a million characters takes a moment, not for ever.
TEST(UnigramModel, LongWordsAreLinear) {
  const auto model = Unigram({{"<unk>", 0}, {"a", -2}, {"aa", -3}, {std::string(60, 'a'), -9}});
  EXPECT_EQ(Tokenize(*model, std::string(1'200'000, 'a')).size(), 20'000u);
}

}  // namespace
}  // namespace penstock
