#include "server/text/normalization.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "server/text/unicode.h"
#include "server/text/unicode_tables.h"

namespace penstock {
namespace {

using Codes = std::vector<utf8proc_int32_t>;

bool IsUnknown(char32_t code) {
  if (code < kUnknownToNormalization[0].first) return false;
  auto it =
      std::upper_bound(std::begin(kUnknownToNormalization), std::end(kUnknownToNormalization), code,
                       [](char32_t value, const CodeRange& range) { return value < range.first; });
  return it != std::begin(kUnknownToNormalization) && code <= std::prev(it)->last;
}

int CombiningClass(utf8proc_int32_t code) { return utf8proc_get_property(code)->combining_class; }

void AppendDecomposed(char32_t code, int options, Codes* codes) {
  constexpr int kLongest = 32;  // Unicode's longest full decomposition has 18 characters
  utf8proc_int32_t parts[kLongest];
  int boundary = 0;
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), parts, kLongest,
                                             static_cast<utf8proc_option_t>(options), &boundary);
  if (count > 0 && count <= kLongest) {
    codes->insert(codes->end(), parts, parts + count);
  } else {
    codes->push_back(static_cast<utf8proc_int32_t>(code));
  }
}

// Sorts every run of combining marks by class. utf8proc's own sorting is quadratic in the run.
void OrderMarks(Codes* codes) {
  auto run = codes->begin();
  while (run != codes->end()) {
    if (CombiningClass(*run) == 0) {
      ++run;
      continue;
    }
    const auto end = std::find_if(run, codes->end(),
                                  [](utf8proc_int32_t code) { return CombiningClass(code) == 0; });
    std::stable_sort(run, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return CombiningClass(a) < CombiningClass(b);
    });
    run = end;
  }
}

// Orders, composes if wanted, appends as UTF-8 and clears `codes`.
void Flush(bool compose, Codes* codes, std::string* out) {
  OrderMarks(codes);
  auto length = static_cast<utf8proc_ssize_t>(codes->size());
  if (compose && length > 0) {
    constexpr int kOptions = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    length =
        utf8proc_normalize_utf32(codes->data(), length, static_cast<utf8proc_option_t>(kOptions));
  }
  for (utf8proc_ssize_t i = 0; i < length; ++i) AppendUtf8((*codes)[i], out);
  codes->clear();
}

}  // namespace

std::string Normalize(NormalForm form, absl::string_view text) {
  const bool compose = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  const bool compatibility = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatibility ? UTF8PROC_COMPAT : 0);
  std::string out;
  out.reserve(text.size());
  Codes codes;
  while (!text.empty()) {
    const Utf8Step step = NextUtf8(text);
    text.remove_prefix(step.length);
    if (IsUnknown(step.code)) {  // reads as a character that nothing combines with
      Flush(compose, &codes, &out);
      AppendUtf8(step.code, &out);
    } else {
      AppendDecomposed(step.code, options, &codes);
    }
  }
  Flush(compose, &codes, &out);
  return out;
}

bool MayNeedNormalization(NormalForm form, absl::string_view text) {
  // The first characters that each form may change: U+0300, and U+00A0 or U+00C0 in Latin-1.
  const unsigned char lead = form == NormalForm::kNfc ? 0xCC : 0x80;
  return std::any_of(text.begin(), text.end(),
                     [lead](char c) { return static_cast<unsigned char>(c) >= lead; });
}

std::string LowerCase(absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = NextUtf8(text);
    text.remove_prefix(step.length);
    if (step.code == 0x130) {  // the only character whose lower case is two
      out += "i\xCC\x87";
    } else {
      AppendUtf8(ToLower(step.code), &out);
    }
  }
  return out;
}

std::string RemoveCharacters(absl::string_view text, bool (*is_removed)(char32_t)) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = NextUtf8(text);
    if (!is_removed(step.code)) out.append(text.data(), step.length);
    text.remove_prefix(step.length);
  }
  return out;
}

}  // namespace penstock
