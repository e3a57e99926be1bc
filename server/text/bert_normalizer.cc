#include "server/text/bert_normalizer.h"

#include "absl/strings/ascii.h"
#include "server/text/normalization.h"
#include "server/text/unicode.h"

namespace penstock {
namespace {

// The CJK blocks that BERT knows.
bool IsIdeograph(char32_t code) {
  return (code >= 0x4E00 && code <= 0x9FFF) || (code >= 0x3400 && code <= 0x4DBF) ||
         (code >= 0x20000 && code <= 0x2A6DF) || (code >= 0x2A700 && code <= 0x2B81F) ||
         (code >= 0x2B920 && code <= 0x2CEAF) || (code >= 0xF900 && code <= 0xFAFF) ||
         (code >= 0x2F800 && code <= 0x2FA1F);
}

bool IsRemoved(char32_t code) {
  if (code == '\t' || code == '\n' || code == '\r') return false;
  return code == 0xFFFD || IsControl(code);
}

// The first half: what depends on single characters.
std::string CleanCharacters(const BertNormalizer& options, absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = NextUtf8(text);
    const absl::string_view character = text.substr(0, step.length);
    text.remove_prefix(step.length);
    if (options.clean_text && IsRemoved(step.code)) continue;
    if (options.clean_text && IsWhiteSpace(step.code)) {
      out += ' ';
      continue;
    }
    const bool alone = options.handle_chinese_chars && IsIdeograph(step.code);
    if (alone) out += ' ';
    out.append(character.data(), character.size());
    if (alone) out += ' ';
  }
  return out;
}

}  // namespace

bool BertNormalizer::Removes(char32_t code) const {
  return (clean_text && IsRemoved(code)) || (strip_accents && IsNonspacingMark(code));
}

std::string BertNormalizer::Apply(absl::string_view text) const {
  std::string out = CleanCharacters(*this, text);
  if (IsAscii(out)) {
    if (lowercase) absl::AsciiStrToLower(&out);
    return out;
  }
  if (strip_accents) out = RemoveCharacters(Normalize(NormalForm::kNfd, out), IsNonspacingMark);
  if (lowercase) out = LowerCase(out);
  return out;
}

}  // namespace penstock
