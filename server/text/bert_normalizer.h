#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace penstock {

// BERT's cleaning of a text (Devlin et al. 2018, tokenization.py's BasicTokenizer), as the
// tokenizers library does it.
struct BertNormalizer {
  bool clean_text = true;            // no control characters; every white space is a space
  bool handle_chinese_chars = true;  // spaces around every ideograph
  bool strip_accents = true;         // decomposed (NFD), without nonspacing marks
  bool lowercase = true;

  // `text` is valid UTF-8, and so is the result.
  std::string Apply(absl::string_view text) const;
  // Characters that go without a trace.
  bool Removes(char32_t code) const;
};

}  // namespace penstock
