#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace penstock {

// The tokens of a model and their ids, both ways. Immutable after Build, safe to share.
class Vocabulary {
 public:
  using Entry = std::pair<std::string, int32_t>;  // a token and its id, which is not negative

  // An empty list is an error, and so is a token that is there twice, but for `allow_repeated`:
  // then its last id counts. Errors name the token.
  static absl::StatusOr<Vocabulary> Build(std::vector<Entry> entries, bool allow_repeated = false);

  // The id of a token; -1 when there is none.
  int32_t Find(absl::string_view token) const;
  // In the order given.
  const std::vector<Entry>& entries() const { return entries_; }
  // By id; null where no token has the id.
  const std::vector<const std::string*>& tokens() const { return tokens_; }
  // Bytes of the longest token.
  size_t longest() const { return longest_; }

 private:
  std::vector<Entry> entries_;
  std::vector<const std::string*> tokens_;
  absl::flat_hash_map<absl::string_view, int32_t> ids_;
  size_t longest_ = 0;
};

}  // namespace penstock
