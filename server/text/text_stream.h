#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/text/stop_matcher.h"
#include "server/text/tokenizer.h"

namespace penstock {

struct TextStreamOptions {
  std::vector<std::string> stop;  // not empty strings, valid UTF-8
  bool include_stop = false;
  bool skip_special_tokens = true;
  // The tokens go on from a prompt: where the tokenizer strips a leading space from a text, the
  // first token keeps it.
  bool continues_text = false;
};

// Turns one sample's tokens into text that is safe to send: whole UTF-8 characters (every maximal
// ill-formed subpart becomes U+FFFD, as in Python's decode("utf-8", "replace")), nothing that may
// yet turn out to be the beginning of a stop string. Owned by one call.
//
// The stop string that is complete first wins; of several that end with the same byte, the longest.
// So the result does not depend on how the text was cut into tokens. A special token that is
// skipped leaves a character that is not complete yet as it is. All pieces together are the text of
// Tokenizer::Decode up to the stop string.
class TextStream {
 public:
  TextStream(const Tokenizer& tokenizer, TextStreamOptions options);

  // Text that has become safe with this token. After a stop string was found, everything is
  // ignored.
  std::string Add(int32_t token);
  // At the end of the sample: what was held back. A character cut short becomes U+FFFD.
  std::string Finish();

  bool stopped() const { return stopped_; }  // a stop string was found
  const std::string& stop_match() const { return stop_match_; }

 private:
  void DecodeBytes(bool at_end, std::string* text);
  std::string Pass(absl::string_view text);

  const Tokenizer& tokenizer_;
  StopMatcher matcher_;
  bool include_stop_, skip_special_tokens_;
  bool first_;
  bool stopped_ = false;
  std::string stop_match_;
  std::string bytes_;  // not yet a whole character
  std::string held_;   // text that may begin a stop string
};

}  // namespace penstock
