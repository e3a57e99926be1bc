#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace penstock {

// Looks for stop strings in a text that arrives piece by piece (Knuth, Morris and Pratt 1977): time
// linear in the text for each stop string, whatever the pieces are. Owned by one thread.
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops);  // empty ones are ignored

  // Reads on, up to the first byte with which a stop string is complete: of several that end there,
  // the longest counts. Returns how many bytes of `text` were read; match() says which string it
  // was, if any.
  size_t Read(absl::string_view text);
  // The stop string that was found, or null.
  const std::string* match() const { return match_; }

  // How many of the last bytes read may yet turn out to begin a stop string.
  size_t pending() const;

 private:
  struct Stop {
    std::string text;
    std::vector<size_t> border;  // [i]: the longest proper border of the first i bytes
    size_t matched = 0;          // bytes of `text` that end what was read
  };

  std::vector<Stop> stops_;
  const std::string* match_ = nullptr;
};

}  // namespace penstock
