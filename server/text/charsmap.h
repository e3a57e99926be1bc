#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace penstock {

// SentencePiece's compiled normalization rules (its "precompiled_charsmap"): a double-array trie
// (Aoe 1989, as the library darts-clone writes it) from character sequences to replacements.
// Immutable after Parse, safe to share.
class Charsmap {
 public:
  // `bytes`: the trie's size in bytes, little-endian u32; the trie's units, little-endian u32 each;
  // replacements, each ended by a zero byte. Errors name what is wrong.
  static absl::StatusOr<Charsmap> Parse(absl::string_view bytes);

  // Appends `text` (valid UTF-8) with its characters replaced to `out`, by the rule of the
  // reference tokenizers: a grapheme cluster of less than six bytes is replaced as a whole where a
  // rule matches its beginning, otherwise each of its characters is.
  void Apply(absl::string_view text, std::string* out) const;

 private:
  bool AppendReplacement(absl::string_view text, std::string* out) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace penstock
