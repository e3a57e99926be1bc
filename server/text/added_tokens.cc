#include "server/text/added_tokens.h"

#include <algorithm>

#include "server/text/unicode.h"

namespace penstock {
namespace {

// The first character of not empty valid UTF-8.
char32_t FirstChar(absl::string_view text) { return NextUtf8(text).code; }

// Where the last character begins.
size_t LastCharBegin(absl::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return begin;
}

size_t TrailingSpaceBegin(absl::string_view text) {
  while (!text.empty()) {
    const size_t begin = LastCharBegin(text);
    if (!IsWhiteSpace(FirstChar(text.substr(begin)))) break;
    text = text.substr(0, begin);
  }
  return text.size();
}

size_t LeadingSpaceEnd(absl::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    const Utf8Step step = NextUtf8(text.substr(end));
    if (!IsWhiteSpace(step.code)) break;
    end += step.length;
  }
  return end;
}

bool TouchesWord(absl::string_view before, absl::string_view after) {
  return (!before.empty() && IsWordChar(FirstChar(before.substr(LastCharBegin(before))))) ||
         (!after.empty() && IsWordChar(FirstChar(after)));
}

}  // namespace

void AddedTokenFinder::Add(const AddedToken& token, absl::string_view spelling) {
  if (spelling.empty()) return;
  uint32_t node = 0;
  for (const char c : spelling) {
    const auto byte = static_cast<unsigned char>(c);
    const auto [edge, is_new] = edges_.try_emplace(node << 8 | byte, token_at_.size());
    if (is_new) token_at_.push_back(-1);
    node = edge->second;
  }
  begins_[static_cast<unsigned char>(spelling[0])] = true;
  token_at_[node] = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(token);
}

bool AddedTokenFinder::FindNext(absl::string_view text, size_t from, Match* match) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!begins_[static_cast<unsigned char>(text[begin])]) continue;
    match->token = nullptr;
    uint32_t node = 0;
    for (size_t i = begin; i < text.size(); ++i) {
      const auto edge = edges_.find(node << 8 | static_cast<unsigned char>(text[i]));
      if (edge == edges_.end()) break;
      node = edge->second;
      if (token_at_[node] >= 0) *match = {begin, i + 1, &tokens_[token_at_[node]]};
    }
    if (match->token != nullptr) return true;
  }
  return false;
}

void AddedTokenFinder::Cut(absl::string_view text, bool parse_special, Visit visit) const {
  size_t done = 0;       // the end of what was visited
  size_t space_end = 0;  // up to where white space was found behind the last token that takes it
  Match match{};
  for (size_t from = 0; !tokens_.empty() && FindNext(text, from, &match); from = match.end) {
    const AddedToken& token = *match.token;
    if (token.special && !parse_special) continue;
    if (token.single_word && TouchesWord(text.substr(0, match.begin), text.substr(match.end))) {
      continue;
    }
    size_t begin = std::max(match.begin, done);
    // White space that the token before has taken stays with it.
    if (token.lstrip) begin = done + TrailingSpaceBegin(text.substr(done, begin - done));
    size_t end = match.end;
    if (token.rstrip) {
      if (end >= space_end) space_end = end + LeadingSpaceEnd(text.substr(end));
      end = space_end;
    }
    if (done < begin) visit(text.substr(done, begin - done), -1);
    visit({}, token.id);
    done = end;
  }
  if (done < text.size()) visit(text.substr(done), -1);
}

}  // namespace penstock
