#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/text/tokenizer.h"

namespace penstock {

struct TextStreamOptions {
  std::vector<std::string> stop;  // not empty strings, valid UTF-8
  bool include_stop = false;
  bool skip_special_tokens = true;
};

// Turns one sample's tokens into text that is safe to send: whole UTF-8 characters (invalid bytes become
// U+FFFD), nothing that may yet turn out to be the beginning of a stop string. Owned by one call.
class TextStream {
 public:
  TextStream(const Tokenizer& tokenizer, TextStreamOptions options);

  // Text that has become safe with this token. After a stop string was found, everything is ignored.
  std::string Add(int32_t token);
  // At the end of the sample: what was held back. A character cut short becomes U+FFFD.
  std::string Finish();

  bool stopped() const { return stopped_; }                     // a stop string was found
  const std::string& stop_match() const { return stop_match_; }

 private:
  const Tokenizer& tokenizer_;
  TextStreamOptions options_;
  bool first_ = true;
  bool stopped_ = false;
  std::string stop_match_;
  std::string bytes_;  // not yet a whole character
  std::string held_;   // text that may begin a stop string
};

}  // namespace penstock
