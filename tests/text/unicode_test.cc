#include "server/text/unicode.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/text/byte_alphabet.h"
#include "server/text/normalization.h"

namespace penstock {
namespace {

// Maximal subparts, as the Unicode standard (3.9, table 3-8) and Python have them.
TEST(ReplaceInvalidUtf8, EveryMaximalSubpartIsOneReplacement) {
  const std::string bad = kReplacementUtf8;
  EXPECT_EQ(ReplaceInvalidUtf8(""), "");
  EXPECT_EQ(ReplaceInvalidUtf8("a\xC3\xA9"), "a\xC3\xA9");
  EXPECT_EQ(ReplaceInvalidUtf8("\x80"), bad);
  EXPECT_EQ(ReplaceInvalidUtf8("\xC0\x80"), bad + bad);
  EXPECT_EQ(ReplaceInvalidUtf8("\xE0\x80\x80"), bad + bad + bad);
  EXPECT_EQ(ReplaceInvalidUtf8("\xED\xA0\x80"), bad + bad + bad);  // a surrogate
  EXPECT_EQ(ReplaceInvalidUtf8("\xF4\x90\x80\x80"), bad + bad + bad + bad);
  EXPECT_EQ(ReplaceInvalidUtf8("\xE6\xAD"), bad);
  EXPECT_EQ(ReplaceInvalidUtf8("\xF0\x9F\xA6x"), bad + "x");
  EXPECT_EQ(ReplaceInvalidUtf8("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "a" + bad + bad + bad + "b" + bad + "c" + bad + bad + "d");
}

TEST(NextUtf8, TellsCutShortFromInvalid) {
  EXPECT_EQ(NextUtf8("\xF0\x9F\xA6").kind, Utf8Step::kCutShort);
  EXPECT_EQ(NextUtf8("\xF0\x9F\xA6").length, 3);
  EXPECT_EQ(NextUtf8("\xF0\x80").kind, Utf8Step::kInvalid);
  EXPECT_EQ(NextUtf8("\xF0\x9F\xA6\x99").code, 0x1F999u);
}

TEST(Utf8, EveryCharacterSurvives) {
  for (char32_t code = 0; code < 0x110000; code += code < 0x3000 ? 1 : 61) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string text;
    AppendUtf8(code, &text);
    ASSERT_TRUE(IsValidUtf8(text));
    const Utf8Step step = NextUtf8(text);
    ASSERT_EQ(step.code, code);
    ASSERT_EQ(step.length, static_cast<int>(text.size()));
    ASSERT_EQ(Utf8Length(text[0]), step.length);
  }
}

TEST(CharacterClasses, FollowTheReference) {
  EXPECT_TRUE(IsWhiteSpace(0x85));
  EXPECT_TRUE(IsWhiteSpace(0x3000));
  EXPECT_FALSE(IsWhiteSpace(0x180E));
  EXPECT_FALSE(IsWhiteSpace(0x200B));
  EXPECT_TRUE(IsNumeric(0x00BD));
  EXPECT_TRUE(IsNumeric(0x10D40));  // Unicode 16
  EXPECT_TRUE(IsWordChar('_'));
  EXPECT_TRUE(IsWordChar(0x200D));
  EXPECT_TRUE(IsWordChar(0x24B6));
  EXPECT_FALSE(IsWordChar(0x00BD));
  EXPECT_TRUE(IsPunctuation('$'));
  EXPECT_TRUE(IsPunctuation(0x3001));
  EXPECT_FALSE(IsPunctuation(0x2E52));  // younger than the reference's tables
}

TEST(ReplaceYoungCharacters, KeepsEveryOffset) {
  std::string out = "untouched";
  EXPECT_FALSE(ReplaceYoungCharacters("plain \xC3\xA9 \xE4\xBD\xA0", &out));
  EXPECT_EQ(out, "untouched");
  const std::string text =
      "a\xF0\xB1\x8D\x90"
      "b\xE1\xB2\x89"
      "c";  // U+31350, U+1C89
  ASSERT_TRUE(ReplaceYoungCharacters(text, &out));
  EXPECT_EQ(out.size(), text.size());
  EXPECT_EQ(out[0], 'a');
  EXPECT_EQ(out[5], 'b');
  EXPECT_EQ(out[9], 'c');
  EXPECT_TRUE(IsValidUtf8(out));
}

TEST(ByteAlphabet, IsABijection) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string one(1, static_cast<char>(byte));
    std::string back;
    ASSERT_TRUE(FromByteAlphabet(ToByteAlphabet(one), &back));
    EXPECT_EQ(back, one);
  }
  EXPECT_EQ(ToByteAlphabet(" \n"), "\u0120\u010A");
  std::string bytes = "kept";
  EXPECT_FALSE(FromByteAlphabet("a b", &bytes));
  EXPECT_EQ(bytes, "kept");
}

TEST(Normalize, SortsLongRunsOfMarksInTime) {
  std::string text = "a";
  for (int i = 0; i < 200'000; ++i) text += "\u0301\u0316";  // classes 230, 220
  const std::string normal = Normalize(NormalForm::kNfd, text);
  EXPECT_EQ(normal.size(), text.size());
  EXPECT_EQ(normal.substr(0, 5), "a\u0316\u0316");
}

TEST(MayNeedNormalization, LetsNothingThrough) {
  for (const NormalForm form :
       {NormalForm::kNfc, NormalForm::kNfd, NormalForm::kNfkc, NormalForm::kNfkd}) {
    for (char32_t code = 0; code < 0x3000; ++code) {
      std::string text = "e";
      AppendUtf8(code, &text);
      if (!MayNeedNormalization(form, text)) {
        ASSERT_EQ(Normalize(form, text), text);
      }
    }
  }
}

// As in the reference, whatever version of Unicode each of these classes comes from.
TEST(Unicode, ClassesOfTheBertNormalizer) {
  for (const char32_t code : {0x00, 0x1F, 0x85, 0xAD, 0x180E, 0x200B, 0xE000, 0xE0001}) {
    EXPECT_TRUE(IsControl(code)) << static_cast<uint32_t>(code);
  }
  for (const char32_t code : {0x20, 0xA0, 0x378, 0x890, 0x8E2, 0x13430, 0x1343F}) {
    EXPECT_FALSE(IsControl(code)) << static_cast<uint32_t>(code);
  }
  EXPECT_TRUE(IsNonspacingMark(0x301));
  EXPECT_TRUE(IsNonspacingMark(0x1734));
  EXPECT_FALSE(IsNonspacingMark(0x903));
  EXPECT_FALSE(IsNonspacingMark(0x1E2AE));  // Unicode 14
  EXPECT_FALSE(IsNonspacingMark(0x897));    // Unicode 16
  EXPECT_TRUE(IsMark(0x903));
  EXPECT_TRUE(IsMark(0x20DD));
  EXPECT_TRUE(IsMark(0x1CF2));
  EXPECT_FALSE(IsMark(0x1CF7));
  EXPECT_FALSE(IsMark('a'));
}

TEST(Unicode, LowerCase) {
  EXPECT_EQ(ToLower('Z'), char32_t{'z'});
  EXPECT_EQ(ToLower(0xC9), char32_t{0xE9});
  EXPECT_EQ(ToLower(0x3A3), char32_t{0x3C3});  // never the final sigma
  EXPECT_EQ(ToLower(0x130), char32_t{0x130});
  EXPECT_EQ(ToLower(0xA7DC), char32_t{0x19B});     // Unicode 16
  EXPECT_EQ(ToLower(0x16EB8), char32_t{0x16ED3});  // Unicode 17
  EXPECT_EQ(ToLower(0x4E00), char32_t{0x4E00});
}

TEST(Unicode, GraphemeClusters) {
  const auto first = [](const std::string& text) { return text.substr(0, GraphemeLength(text)); };
  EXPECT_EQ(first("ab"), "a");
  EXPECT_EQ(first("\r\nx"), "\r\n");
  EXPECT_EQ(first("\n\r"), "\n");
  EXPECT_EQ(first("e\u0301\u0323x"), "e\u0301\u0323");
  EXPECT_EQ(first("a\u0897"), "a\u0897");  // a mark of Unicode 16
  EXPECT_EQ(first("\u1100\u1161\u11a8\uac00"), "\u1100\u1161\u11a8");
  EXPECT_EQ(first("\U0001F1E6\U0001F1E7\U0001F1E8"), "\U0001F1E6\U0001F1E7");
  EXPECT_EQ(first("\U0001F469\u200d\U0001F4BBx"), "\U0001F469\u200d\U0001F4BB");
  EXPECT_EQ(first("\x01\u0301"), "\x01");
}

}  // namespace
}  // namespace penstock
