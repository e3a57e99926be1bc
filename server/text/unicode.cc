#include "server/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "server/text/unicode_tables.h"

namespace penstock {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

struct LeadByte {
  int length;               // of the whole character; 0: no character begins like this
  unsigned char low, high;  // the bounds of the second byte
};

// Table 3-7 of the Unicode standard.
LeadByte ClassifyLead(unsigned char lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

template <typename Table>
auto FindRange(const Table& table, char32_t code) {
  auto it = std::upper_bound(std::begin(table), std::end(table), code,
                             [](char32_t value, const auto& range) { return value < range.first; });
  if (it == std::begin(table)) return std::end(table);
  --it;
  return code <= it->last ? it : std::end(table);
}

template <typename Table>
bool InRanges(const Table& table, char32_t code) {
  return FindRange(table, code) != std::end(table);
}

utf8proc_category_t Category(char32_t code) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  if (category != UTF8PROC_CATEGORY_CN) return category;
  const auto young = FindRange(kYoungCharacters, code);
  return young == std::end(kYoungCharacters) ? category : young->category;
}

bool IsYoung(char32_t code) {
  return FindRange(kYoungCharacters, code) != std::end(kYoungCharacters);
}

bool IsMarkCategory(utf8proc_category_t category) {
  return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

// As what a character counts between grapheme clusters.
utf8proc_int32_t ForClusters(char32_t code) {
  constexpr utf8proc_int32_t kExtender = 0x300;
  if (code < 0x300) return static_cast<utf8proc_int32_t>(code);
  if (InRanges(kYoungExtenders, code)) return kExtender;
  return IsYoung(code) && IsMarkCategory(Category(code)) ? kExtender
                                                         : static_cast<utf8proc_int32_t>(code);
}

// An old character of the same category with as many UTF-8 bytes.
char32_t StandIn(const YoungRange& range) {
  const bool astral = range.first >= 0x10000;
  switch (range.category) {
    case UTF8PROC_CATEGORY_LU: return astral ? 0x10400 : 0x1E00;
    case UTF8PROC_CATEGORY_LL: return astral ? 0x10428 : 0x1E01;
    case UTF8PROC_CATEGORY_LM: return astral ? 0x16B40 : 0x3005;
    case UTF8PROC_CATEGORY_LO: return range.first >= 0x20000 ? 0x20000 : astral ? 0x10000 : 0x0E01;
    case UTF8PROC_CATEGORY_MN: return astral ? 0x101FD : 0x0E31;
    case UTF8PROC_CATEGORY_MC: return astral ? 0x11000 : 0x0903;
    case UTF8PROC_CATEGORY_ND: return astral ? 0x104A0 : 0x0966;
    case UTF8PROC_CATEGORY_NO: return astral ? 0x10107 : 0x2460;
    case UTF8PROC_CATEGORY_PD: return astral ? 0x10EAD : 0x2010;
    case UTF8PROC_CATEGORY_PO: return astral ? 0x10100 : 0x0964;
    case UTF8PROC_CATEGORY_SM: return astral ? 0x1D6C1 : 0x2200;
    case UTF8PROC_CATEGORY_SO: return astral ? 0x1F300 : 0x2190;
    case UTF8PROC_CATEGORY_CF: return astral ? 0x1D173 : 0x206A;
    default: return 0;
  }
}

}  // namespace

Utf8Step NextUtf8(absl::string_view bytes) {
  const auto lead = static_cast<unsigned char>(bytes[0]);
  const LeadByte expected = ClassifyLead(lead);
  if (expected.length == 1) return {Utf8Step::kChar, 1, lead};
  if (expected.length == 0) return {Utf8Step::kInvalid, 1, kReplacement};
  char32_t code = lead & (0x7F >> expected.length);
  for (int i = 1; i < expected.length; ++i) {
    if (static_cast<size_t>(i) == bytes.size()) return {Utf8Step::kCutShort, i, kReplacement};
    const auto byte = static_cast<unsigned char>(bytes[i]);
    const unsigned char low = i == 1 ? expected.low : 0x80;
    const unsigned char high = i == 1 ? expected.high : 0xBF;
    if (byte < low || byte > high) return {Utf8Step::kInvalid, i, kReplacement};
    code = code << 6 | (byte & 0x3F);
  }
  return {Utf8Step::kChar, expected.length, code};
}

bool IsValidUtf8(absl::string_view bytes) {
  while (!bytes.empty()) {
    const Utf8Step step = NextUtf8(bytes);
    if (step.kind != Utf8Step::kChar) return false;
    bytes.remove_prefix(step.length);
  }
  return true;
}

bool IsAscii(absl::string_view bytes) {
  return std::none_of(bytes.begin(), bytes.end(),
                      [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
}

std::string ReplaceInvalidUtf8(absl::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const Utf8Step step = NextUtf8(bytes);
    if (step.kind == Utf8Step::kChar) {
      out.append(bytes.data(), step.length);
    } else {
      out.append(kReplacementUtf8);
    }
    bytes.remove_prefix(step.length);
  }
  return out;
}

void AppendUtf8(char32_t code, std::string* out) {
  utf8proc_uint8_t buffer[4];
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), buffer);
  for (utf8proc_ssize_t i = 0; i < length; ++i) out->push_back(static_cast<char>(buffer[i]));
}

size_t CountUtf8(absl::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

bool IsWhiteSpace(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= 0x09 && code <= 0x0D);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
         code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool IsNumeric(char32_t code) {
  if (code < 0x80) return code >= '0' && code <= '9';
  const auto category = Category(code);
  return (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO) ||
         InRanges(kYoungerDigits, code);
}

bool IsWordChar(char32_t code) {
  const auto category = Category(code);
  const bool by_category = (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) ||
                           category == UTF8PROC_CATEGORY_PC;
  return by_category || InRanges(kOtherWordChars, code);
}

bool IsPunctuation(char32_t code) {
  if (code < 0x80) return (code > 0x20 && code < 0x7F) && !absl::ascii_isalnum(code);
  if (code == 0x166D || code == 0x111C9) return true;  // no longer punctuation since
  const auto category = Category(code);
  const bool by_category = category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
  return by_category && !InRanges(kYoungPunctuation, code);
}

bool IsControl(char32_t code) {
  if (code < 0x300) return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0xAD;
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  if (category == UTF8PROC_CATEGORY_CO) return true;
  return category == UTF8PROC_CATEGORY_CF && !InRanges(kYoungFormats, code);
}

bool IsMark(char32_t code) {
  if (code < 0x300) return false;
  if (code == 0x1CF2 || code == 0x1CF3) return true;  // no longer marks since
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return IsMarkCategory(category) && !InRanges(kYoungMarks, code) && !IsYoung(code);
}

bool IsNonspacingMark(char32_t code) {
  if (code < 0x300) return false;
  if (code == 0x1734) return true;  // a spacing mark since
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category == UTF8PROC_CATEGORY_MN && !InRanges(kYoungNonspacingMarks, code) &&
         !IsYoung(code);
}

char32_t ToLower(char32_t code) {
  if (code < 0x80) return absl::ascii_isupper(static_cast<unsigned char>(code)) ? code + 32 : code;
  if (code == 0x130) return code;
  const auto young = FindRange(kYoungUpperCase, code);
  if (young != std::end(kYoungUpperCase)) return code + static_cast<char32_t>(young->distance);
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
}

size_t GraphemeLength(absl::string_view text) {
  Utf8Step step = NextUtf8(text);
  size_t length = step.length;
  utf8proc_int32_t previous = ForClusters(step.code);
  utf8proc_int32_t state = 0;
  while (length < text.size()) {
    step = NextUtf8(text.substr(length));
    const utf8proc_int32_t next = ForClusters(step.code);
    if (utf8proc_grapheme_break_stateful(previous, next, &state)) break;
    length += step.length;
    previous = next;
  }
  return length;
}

bool ReplaceYoungCharacters(absl::string_view text, std::string* out) {
  size_t copied = 0;
  std::string replaced;
  for (size_t i = 0; i < text.size();) {
    if (static_cast<unsigned char>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    const Utf8Step step = NextUtf8(text.substr(i));
    const auto young = FindRange(kYoungCharacters, step.code);
    if (young != std::end(kYoungCharacters)) {
      replaced.append(text.data() + copied, i - copied);
      AppendUtf8(StandIn(*young), &replaced);
      copied = i + step.length;
    }
    i += step.length;
  }
  if (copied == 0) return false;
  replaced.append(text.data() + copied, text.size() - copied);
  *out = std::move(replaced);
  return true;
}

}  // namespace penstock
