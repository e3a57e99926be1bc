#include "server/text/bpe_model.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<int32_t>;

// Ids in the order of `tokens`.
BpeSpec Spec(const std::vector<std::string>& tokens,
             std::vector<std::pair<std::string, std::string>> merges) {
  BpeSpec spec;
  for (size_t i = 0; i < tokens.size(); ++i) {
    spec.vocab.emplace_back(tokens[i], static_cast<int32_t>(i));
  }
  spec.merges = std::move(merges);
  return spec;
}

Ids Tokenize(BpeSpec spec, const std::string& word) {
  const auto model = BpeModel::Build(std::move(spec));
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return {};
  Ids ids;
  (*model)->Tokenize(word, *(*model)->NewScratch(), &ids);
  return ids;
}

TEST(BpeModel, RankCountsNotLength) {
  const auto spec = Spec({"a", "b", "c", "ab", "bc", "abc"}, {{"b", "c"}, {"a", "b"}});
  EXPECT_THAT(Tokenize(spec, "abc"), ElementsAre(0, 4));
}

TEST(BpeModel, LeftmostOfEquals) {
  EXPECT_THAT(Tokenize(Spec({"a", "aa"}, {{"a", "a"}}), "aaa"), ElementsAre(1, 0));
}

TEST(BpeModel, IgnoreMergesTakesWholeWordsOnly) {
  BpeSpec spec = Spec({"a", "b", "ab"}, {});
  EXPECT_THAT(Tokenize(spec, "ab"), ElementsAre(0, 1));
  spec.ignore_merges = true;
  EXPECT_THAT(Tokenize(spec, "ab"), ElementsAre(2));
  EXPECT_THAT(Tokenize(spec, "aba"), ElementsAre(0, 1, 0));
}

TEST(BpeModel, UnknownCharacters) {
  BpeSpec spec = Spec({"?", "a"}, {});
  EXPECT_THAT(Tokenize(spec, "axya"), ElementsAre(1, 1));  // no unk_token: left out
  spec.unk_token = "?";
  EXPECT_THAT(Tokenize(spec, "axya"), ElementsAre(1, 0, 0, 1));
  spec.fuse_unk = true;
  EXPECT_THAT(Tokenize(spec, "axya"), ElementsAre(1, 0, 1));
}

TEST(BpeModel, BytesWhereAllOfThemExist) {
  BpeSpec spec = Spec({"?", "a", "<0xC3>", "<0xA9>", "<0xE4>"}, {});
  spec.unk_token = "?";
  spec.byte_fallback = true;
  EXPECT_THAT(Tokenize(spec, "a\u00e9"), ElementsAre(1, 2, 3));
  EXPECT_THAT(Tokenize(spec, "a\u4f60"), ElementsAre(1, 0));  // lacks two of three
}

TEST(BpeModel, ErrorsNameTheToken) {
  const auto lacking = BpeModel::Build(Spec({"a", "b"}, {{"a", "b"}}));
  EXPECT_THAT(std::string(lacking.status().message()), HasSubstr("merge 0 ('a' 'b')"));
  BpeSpec unknown = Spec({"a"}, {});
  unknown.unk_token = "<unk>";
  EXPECT_THAT(std::string(BpeModel::Build(std::move(unknown)).status().message()),
              HasSubstr("<unk>"));
  EXPECT_FALSE(BpeModel::Build(Spec({"a", "a"}, {})).ok());
}

TEST(BpeModel, EmptyVocabularyIsAnError) {
  EXPECT_THAT(std::string(BpeModel::Build(Spec({}, {})).status().message()),
              HasSubstr("vocabulary is empty"));
}

// The definition, quadratic: merge the pair with the lowest rank, the leftmost of equals.
std::vector<std::string> MergeByDefinition(
    std::vector<std::string> parts,
    const std::vector<std::pair<std::string, std::string>>& merges) {
  for (;;) {
    size_t best = merges.size();
    size_t at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto pair = std::make_pair(parts[i], parts[i + 1]);
      const auto rank =
          static_cast<size_t>(std::find(merges.begin(), merges.end(), pair) - merges.begin());
      if (rank < best) {
        best = rank;
        at = i;
      }
    }
    if (best == merges.size()) return parts;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
}

// Random vocabularies, words below and above the length where the heap takes over, with space
// marks.
TEST(BpeModel, EqualsItsDefinition) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const std::vector<std::string> letters = {"a", "b", "c", "\u2581"};
    std::vector<std::string> tokens = letters;
    std::vector<std::pair<std::string, std::string>> merges;
    for (int i = 0; i < 12; ++i) {
      const std::string left = tokens[random() % tokens.size()];
      const std::string right = tokens[random() % tokens.size()];
      if (std::find(merges.begin(), merges.end(), std::make_pair(left, right)) != merges.end()) {
        continue;
      }
      merges.emplace_back(left, right);
      if (std::find(tokens.begin(), tokens.end(), left + right) == tokens.end()) {
        tokens.push_back(left + right);
      }
    }
    const auto built = BpeModel::Build(Spec(tokens, merges));
    ASSERT_TRUE(built.ok());
    const BpeModel& model = **built;
    const auto scratch = model.NewScratch();
    for (const size_t length : {1, 2, 5, 20, 47, 48, 49, 120}) {
      std::string word;
      std::vector<std::string> parts;
      for (size_t i = 0; i < length; ++i) parts.push_back(letters[random() % letters.size()]);
      for (const std::string& part : parts) word += part;
      Ids expected;
      for (const std::string& part : MergeByDefinition(parts, merges)) {
        expected.push_back(model.vocabulary().Find(part));
      }
      Ids ids;
      model.Tokenize(word, *scratch, &ids);
      ASSERT_EQ(ids, expected) << word;
    }
  }
}

}  // namespace
}  // namespace penstock
