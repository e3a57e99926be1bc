#include "server/text/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace penstock {
namespace {

// The longest prefix of `text` that `matched` bytes of it and `next` end with.
size_t Advance(const std::string& text, const std::vector<size_t>& border, size_t matched,
               char next) {
  while (matched > 0 && (matched == text.size() || text[matched] != next)) {
    matched = border[matched];
  }
  return text[matched] == next ? matched + 1 : 0;
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> stops) {
  for (std::string& text : stops) {
    if (text.empty()) continue;
    std::vector<size_t> border(text.size() + 1, 0);
    for (size_t i = 1; i < text.size(); ++i) {
      border[i + 1] = Advance(text, border, border[i], text[i]);
    }
    stops_.push_back({std::move(text), std::move(border)});
  }
}

size_t StopMatcher::Read(absl::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    for (Stop& stop : stops_) {
      stop.matched = Advance(stop.text, stop.border, stop.matched, text[i]);
      const bool complete = stop.matched == stop.text.size();
      if (complete && (match_ == nullptr || match_->size() < stop.text.size())) {
        match_ = &stop.text;
      }
    }
    if (match_ != nullptr) return i + 1;
  }
  return text.size();
}

size_t StopMatcher::pending() const {
  size_t longest = 0;
  for (const Stop& stop : stops_) longest = std::max(longest, stop.matched);
  return longest;
}

}  // namespace penstock
