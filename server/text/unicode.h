#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace penstock {

// Unicode as tokenizers need it: UTF-8 in and out, and character classes of Unicode 16 whatever
// version the installed utf8proc knows. Pure functions.

inline constexpr char kReplacementUtf8[] = "\xEF\xBF\xBD";  // U+FFFD

// One step through bytes that may or may not be UTF-8.
struct Utf8Step {
  enum Kind {
    kChar,      // a whole character
    kInvalid,   // a maximal ill-formed subpart (Unicode standard, 3.9): reads as one U+FFFD
    kCutShort,  // the bytes end inside a character that is well-formed so far
  };
  Kind kind;
  int length;     // bytes consumed, at least 1
  char32_t code;  // U+FFFD unless kChar
};

// `bytes` is not empty.
Utf8Step NextUtf8(absl::string_view bytes);

bool IsValidUtf8(absl::string_view bytes);
bool IsAscii(absl::string_view bytes);
// Every maximal ill-formed subpart becomes U+FFFD, as Python's decode("utf-8", "replace") does.
std::string ReplaceInvalidUtf8(absl::string_view bytes);
void AppendUtf8(char32_t code, std::string* out);
// The length of the first character of valid, not empty UTF-8.
inline int Utf8Length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// The characters of valid UTF-8.
size_t CountUtf8(absl::string_view text);

bool IsWhiteSpace(char32_t code);  // the White_Space property
bool IsNumeric(char32_t code);     // categories Nd, Nl, No
bool IsWordChar(char32_t code);  // letters, marks, decimal digits, connectors and joiners (UTS 18)
bool IsPunctuation(char32_t code);  // ASCII punctuation and the P categories of Unicode 8

// Control, format and private-use characters (Cc, Cf, Co) of Unicode 8.
bool IsControl(char32_t code);
bool IsMark(char32_t code);            // the M categories of Unicode 9
bool IsNonspacingMark(char32_t code);  // category Mn of Unicode 8
// The lower case where it is one character (all but U+0130, which is left alone), of Unicode 17.
char32_t ToLower(char32_t code);

// The bytes of the first extended grapheme cluster (Unicode standard annex 29) of valid, not empty
// UTF-8. The time is linear in the cluster.
size_t GraphemeLength(absl::string_view text);

// A copy of valid UTF-8 in which every character younger than Unicode 14 is replaced by an older
// one of the same category and length, for engines whose tables end there. Returns false, and
// leaves `out` alone, when there is no such character.
bool ReplaceYoungCharacters(absl::string_view text, std::string* out);

}  // namespace penstock
