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
// Every maximal ill-formed subpart becomes U+FFFD, as Python's decode("utf-8", "replace") does.
std::string ReplaceInvalidUtf8(absl::string_view bytes);
void AppendUtf8(char32_t code, std::string* out);
// The length of the first character of valid, not empty UTF-8.
inline int Utf8Length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

bool IsWhiteSpace(char32_t code);  // the White_Space property
bool IsNumeric(char32_t code);     // categories Nd, Nl, No
bool IsWordChar(char32_t code);  // letters, marks, decimal digits, connectors and joiners (UTS 18)
bool IsPunctuation(char32_t code);  // ASCII punctuation and the P categories of Unicode 8

// A copy of valid UTF-8 in which every character younger than Unicode 14 is replaced by an older
// one of the same category and length, for engines whose tables end there. Returns false, and
// leaves `out` alone, when there is no such character.
bool ReplaceYoungCharacters(absl::string_view text, std::string* out);

}  // namespace penstock
