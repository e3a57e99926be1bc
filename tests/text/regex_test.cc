#include "server/text/regex.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/text/regex_syntax.h"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The matches and what lies between, the former in brackets.
std::vector<std::string> Slices(const std::string& pattern, const std::string& text) {
  const auto regex = Regex::Compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status();
  if (!regex.ok()) return {};
  RegexScratch scratch;
  std::vector<std::string> slices;
  regex->Visit(text, scratch, [&](MatchSlice slice) {
    const std::string part = text.substr(slice.begin, slice.end - slice.begin);
    slices.push_back(slice.is_match ? "[" + part + "]" : part);
  });
  return slices;
}

TEST(OnigurumaToPcre2, RewritesWhatDiffers) {
  EXPECT_EQ(*OnigurumaToPcre2(R"(\h+)"), "[0-9A-Fa-f]+");
  EXPECT_EQ(*OnigurumaToPcre2(R"([\h_])"), "[0-9A-Fa-f_]");
  EXPECT_EQ(*OnigurumaToPcre2(R"(\u0041{,3})"), R"(\x{0041}{0,3})");
  EXPECT_EQ(*OnigurumaToPcre2(R"(\p{N}{1,3}+)"), R"((?:\p{N}{1,3})+)");
  EXPECT_EQ(*OnigurumaToPcre2(R"(x(?:ab|c){2}?)"), R"(x(?:(?:ab|c){2})?)");
  EXPECT_EQ(*OnigurumaToPcre2("(?m:.)(?i-m:a)"), "(?s:.)(?i-s:a)");
  EXPECT_EQ(*OnigurumaToPcre2("a++b*?c?+"), "a++b*?c?+");
  EXPECT_EQ(*OnigurumaToPcre2("{x} a{ "), "\\{x} a\\{ ");
}

TEST(OnigurumaToPcre2, RefusesWhatHasNoEquivalent) {
  for (const char* pattern : {"[a&&b]", "[a[b]]", "(*LIMIT_MATCH=1)a", "[\\W]", "\\"}) {
    const auto translated = OnigurumaToPcre2(pattern);
    ASSERT_FALSE(translated.ok()) << pattern;
    EXPECT_THAT(std::string(translated.status().message()), HasSubstr(pattern));
  }
}

TEST(Regex, VisitsMatchesAndWhatLiesBetween) {
  EXPECT_THAT(Slices("b+", "abbc"), ElementsAre("a", "[bb]", "c"));
  EXPECT_THAT(Slices("b", "bb"), ElementsAre("[b]", "[b]"));
  EXPECT_THAT(Slices("z", "ab"), ElementsAre("ab"));
  EXPECT_THAT(Slices("z", ""), ElementsAre());
}

TEST(Regex, CountsEmptyMatchesOnce) {
  EXPECT_THAT(Slices("x*", "axb"), ElementsAre("[]", "a", "[x]", "b", "[]"));
  EXPECT_THAT(Slices("(?=\u00e9)", "\u00e9\u00e9"), ElementsAre("[]", "\u00e9", "[]", "\u00e9"));
}

TEST(Regex, LiteralsAreNotPatterns) {
  const auto regex = Regex::Literal("a.");
  ASSERT_TRUE(regex.ok());
  RegexScratch scratch;
  int matches = 0;
  regex->Visit("aba.a.", scratch, [&](MatchSlice slice) { matches += slice.is_match; });
  EXPECT_EQ(matches, 2);
}

TEST(Regex, BadPatternsAreErrorsThatQuoteThem) {
  for (const char* pattern : {"(", "a**b(", "\\p{NoSuchClass}", "[b-a]"}) {
    const auto regex = Regex::Compile(pattern);
    ASSERT_FALSE(regex.ok()) << pattern;
    EXPECT_THAT(std::string(regex.status().message()), HasSubstr(pattern));
  }
  EXPECT_FALSE(Regex::Compile(std::string(1 << 20, 'a')).ok());
}

// Exponential backtracking is cut off; the rest of the text is one slice.
TEST(Regex, HostileTextCannotHang) {
  const std::string text(60, 'a');
  EXPECT_THAT(Slices("(?:a|a)*(?:a|a)*(?:a|a)*b", text), ElementsAre(text));
}

TEST(Regex, LongRunsOfOneClass) {
  const std::string spaces(1'000'000, ' ');
  EXPECT_THAT(Slices(R"(\s*[\r\n]+|\s+(?!\S)|\s+)", spaces), testing::SizeIs(1));
  EXPECT_THAT(Slices(R"((?:\p{L}|\p{M})+)", std::string(300'000, 'a')), testing::SizeIs(1));
}

}  // namespace
}  // namespace penstock
