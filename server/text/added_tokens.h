#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace penstock {

// A token that is found in the text as it stands, before the model sees any of it.
struct AddedToken {
  int32_t id = 0;
  std::string content;       // what a token decodes to
  bool single_word = false;  // only between characters that are not part of a word
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // takes the white space behind it along
  bool normalized = false;   // is looked for after normalization, in its normalized spelling
  bool special = false;
};

// Finds a set of added tokens in texts: leftmost first, of those the longest. Immutable, safe to
// share.
class AddedTokenFinder {
 public:
  // Called for every part of a text in order: either a token was found (`id` >= 0) or `text` holds
  // none.
  using Visit = absl::FunctionRef<void(absl::string_view text, int32_t id)>;

  // `spelling` is what to look for; the latest of several with the same one counts. Empty ones are
  // ignored.
  void Add(const AddedToken& token, absl::string_view spelling);

  // With `parse_special` false, special tokens are left to the text around them.
  void Cut(absl::string_view text, bool parse_special, Visit visit) const;

 private:
  struct Match {
    size_t begin, end;
    const AddedToken* token;
  };
  bool FindNext(absl::string_view text, size_t from, Match* match) const;

  std::vector<AddedToken> tokens_;
  // A trie: node << 8 | byte leads to another node; node 0 is the root.
  absl::flat_hash_map<uint32_t, uint32_t> edges_;
  std::vector<int32_t> token_at_ = {-1};  // by node: which of tokens_ ends there
  std::array<bool, 256> begins_{};        // by byte: some token begins with it
};

}  // namespace penstock
