// SentencePiece's compiled rules: what they do is in the golden files, here is what they refuse.

#include "server/text/charsmap.h"

#include <random>
#include <string>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/text/unicode.h"
#include "tests/text/files.h"

namespace penstock {
namespace {

using testing::HasSubstr;

std::string GoldenBytes() {
  const auto document = ReadTokenizerJson("unigram.json");
  std::string bytes;
  EXPECT_TRUE(absl::Base64Unescape(
      document["normalizer"]["normalizers"][0]["precompiled_charsmap"].get<std::string>(), &bytes));
  return bytes;
}

std::string Apply(const Charsmap& map, absl::string_view text) {
  std::string out;
  map.Apply(text, &out);
  return out;
}

// The cluster is replaced as a whole even where the rule is for its beginning only.
TEST(Charsmap, ShortClustersAreReplacedAsAWhole) {
  const auto map = Charsmap::Parse(GoldenBytes());
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(Apply(*map, "\uff21\ufb01b"), "Afib");
  EXPECT_EQ(Apply(*map, "ce\u0301"), "c\u00e9");
  EXPECT_EQ(Apply(*map, "\u00bd\u0301"), "1/2");                   // five bytes: the mark is lost
  EXPECT_EQ(Apply(*map, "\ufb01\u0301"), "fi");                    // five bytes
  EXPECT_EQ(Apply(*map, "\ufb01\u0301\u0302"), "fi\u0301\u0302");  // seven bytes
  EXPECT_EQ(Apply(*map, "\r\n\r"), "  ");  // "\r\n" is one cluster, "\r" its beginning
  EXPECT_EQ(Apply(*map, "a\u200bb"), "ab");
}

TEST(Charsmap, ErrorsSayWhatIsWrong) {
  const std::string good = GoldenBytes();
  const auto error = [](std::string bytes) {
    return std::string(Charsmap::Parse(bytes).status().message());
  };
  EXPECT_THAT(error(""), HasSubstr("header"));
  EXPECT_THAT(error(good.substr(0, 100)), HasSubstr("shorter"));
  EXPECT_THAT(error(std::string(8, '\0')), HasSubstr("trie"));
  EXPECT_THAT(error(std::string("\x03\0\0\0abc", 7)), HasSubstr("trie"));
  EXPECT_THAT(error(good + "\xFF"), HasSubstr("UTF-8"));
  EXPECT_THAT(error(good + std::string(2000, 'a')), HasSubstr("1024"));
}

// Whatever the trie says: no reads beyond it, and text stays text.
TEST(Charsmap, BrokenTriesDoNoHarm) {
  const std::string good = GoldenBytes();
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = good;
    for (int i = 0; i < 8; ++i) bytes[4 + random() % (bytes.size() - 4)] ^= 1 << random() % 8;
    const auto map = Charsmap::Parse(bytes);
    if (!map.ok()) continue;
    const std::string out = Apply(*map, "e\u0301 \uff21\ufb01\t\u0958 \U0001d7d8 x\r\n\u00bd");
    EXPECT_TRUE(IsValidUtf8(out)) << absl::CEscape(out);
  }
}

}  // namespace
}  // namespace penstock
