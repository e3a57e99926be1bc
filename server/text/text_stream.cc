#include "server/text/text_stream.h"

#include <utility>

#include "server/text/unicode.h"

namespace penstock {

TextStream::TextStream(const Tokenizer& tokenizer, TextStreamOptions options)
    : tokenizer_(tokenizer),
      matcher_(std::move(options.stop)),
      include_stop_(options.include_stop),
      skip_special_tokens_(options.skip_special_tokens),
      first_(!options.continues_text) {}

std::string TextStream::Add(int32_t token) {
  if (stopped_ || (skip_special_tokens_ && tokenizer_.IsSpecial(token))) return "";
  bytes_ += tokenizer_.Bytes(token, first_);
  first_ = false;
  std::string text;
  DecodeBytes(/*at_end=*/false, &text);
  return Pass(text);
}

std::string TextStream::Finish() {
  if (stopped_) return "";
  std::string text;
  DecodeBytes(/*at_end=*/true, &text);
  std::string out = Pass(text);
  out += std::exchange(held_, "");
  return out;
}

// Moves whole characters from bytes_ to `text`.
void TextStream::DecodeBytes(bool at_end, std::string* text) {
  absl::string_view rest = bytes_;
  while (!rest.empty()) {
    const Utf8Step step = NextUtf8(rest);
    if (step.kind == Utf8Step::kCutShort && !at_end) break;
    if (step.kind == Utf8Step::kChar) {
      text->append(rest.data(), step.length);
    } else {
      text->append(kReplacementUtf8);
    }
    rest.remove_prefix(step.length);
  }
  bytes_.erase(0, bytes_.size() - rest.size());
}

// Adds text behind what is held back and returns what has become safe.
std::string TextStream::Pass(absl::string_view text) {
  const size_t read = matcher_.Read(text);
  held_.append(text.data(), read);
  size_t safe = held_.size() - matcher_.pending();
  if (const std::string* match = matcher_.match()) {
    stopped_ = true;
    stop_match_ = *match;
    safe = held_.size() - (include_stop_ ? 0 : match->size());
  }
  std::string out = held_.substr(0, safe);
  held_.erase(0, stopped_ ? held_.size() : safe);
  return out;
}

}  // namespace penstock
