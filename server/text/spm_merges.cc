#include "server/text/spm_merges.h"

#include <algorithm>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "server/text/unicode.h"

namespace penstock {
namespace {

struct Candidate {
  absl::string_view left, right;
  float score;
  size_t left_chars, right_chars;
  size_t order;  // of equals, the first found comes first
};

}  // namespace

std::vector<std::pair<std::string, std::string>> MergesFromScores(
    const std::vector<std::string>& tokens, const std::vector<float>& scores) {
  absl::flat_hash_map<absl::string_view, size_t> ids;
  for (size_t i = 0; i < tokens.size(); ++i) ids[tokens[i]] = i;
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const absl::string_view token = tokens[i];
    const size_t first = candidates.size();
    for (size_t at = 0; at < token.size(); at += Utf8Length(token[at])) {
      const absl::string_view left = token.substr(0, at);
      const absl::string_view right = token.substr(at);
      if (at == 0 || !ids.contains(left) || !ids.contains(right)) continue;
      candidates.push_back({left, right, scores[i], CountUtf8(left), CountUtf8(right), 0});
    }
    std::sort(candidates.begin() + static_cast<ptrdiff_t>(first), candidates.end(),
              [&](const Candidate& a, const Candidate& b) {
                return std::make_pair(ids[a.left], ids[a.right]) <
                       std::make_pair(ids[b.left], ids[b.right]);
              });
  }
  for (size_t i = 0; i < candidates.size(); ++i) candidates[i].order = i;
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(b.score, b.left_chars, b.right_chars, a.order) <
           std::tie(a.score, a.left_chars, a.right_chars, b.order);
  });
  std::vector<std::pair<std::string, std::string>> merges;
  merges.reserve(candidates.size());
  for (const Candidate& candidate : candidates) {
    merges.emplace_back(candidate.left, candidate.right);
  }
  return merges;
}

}  // namespace penstock
