#pragma once

#include <cctype>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace penstock {

// Why a page is not well-formed XML (but for its document type), or "": elements that are not
// closed in their order, attributes without quotes, bare '<' and '&'.
inline std::string XmlProblem(absl::string_view text) {
  std::vector<std::string> open;
  while (!text.empty()) {
    const size_t mark = text.find_first_of("<&");
    if (mark == absl::string_view::npos) break;
    text.remove_prefix(mark);
    const std::string here(text.substr(0, 60));
    if (text.front() == '&') {
      const size_t end = text.find(';');
      if (end == absl::string_view::npos || end > 6) return "a bare & at " + here;
      text.remove_prefix(end);
      continue;
    }
    const size_t end = text.find('>');
    if (end == absl::string_view::npos) return "no end of " + here;
    const absl::string_view tag = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
    if (absl::StartsWith(tag, "!DOCTYPE")) continue;
    if (absl::StartsWith(tag, "/")) {
      if (open.empty() || open.back() != tag.substr(1)) return "closed out of order: " + here;
      open.pop_back();
      continue;
    }
    size_t position = tag.find_first_of(" /");
    const std::string name(tag.substr(0, position));
    if (name.empty()) return "a bare < at " + here;
    bool closed = false;
    while (position < tag.size()) {
      if (tag[position] == ' ' || tag[position] == '/') {
        closed = tag[position] == '/';
        ++position;
        continue;
      }
      const size_t quote = tag.find("=\"", position);
      const size_t last = quote == absl::string_view::npos ? quote : tag.find('"', quote + 2);
      if (last == absl::string_view::npos) return "an attribute without quotes at " + here;
      position = last + 1;
    }
    if (!closed) open.push_back(name);
  }
  return open.empty() ? "" : absl::StrCat("not closed: ", open.back());
}

}  // namespace penstock
