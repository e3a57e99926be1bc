#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace penstock {

// The "decoder" of a tokenizer.json, as a function of one token: only what can be decoded token by
// token can be streamed, and decoders that need the tokens around are refused. Immutable, safe to
// share.
class Decoder {
 public:
  // `node` may be null: tokens are then joined by spaces. Unknown types are errors that name them.
  static absl::StatusOr<Decoder> FromJson(const nlohmann::json* node);

  // The bytes of a token as the vocabulary spells it. `first`: it opens the text.
  std::string Bytes(absl::string_view token, bool first) const;

 private:
  enum class Kind {
    kByteLevel,
    kByteFallback,
    kReplace,
    kStrip,
    kMetaspace,
    kWordPiece,
    kSpaceBetween
  };
  struct Step {
    Kind kind;
    std::string from;         // Replace: what is replaced; Strip: what is taken off; Metaspace;
                              // WordPiece: how tokens begin that go on with a word
    std::string to;           // Replace: by what
    int start = 0, stop = 0;  // Strip: at most so many
    bool first_only = false;  // Strip: of the whole text, not of each token. Metaspace: drops the
                              // first token's marks
    bool tidies = false;      // WordPiece: takes away the spaces around English punctuation
  };

  absl::Status Add(const nlohmann::json& node, int depth);
  absl::Status AddReplace(const nlohmann::json& node);
  absl::Status AddStrip(const nlohmann::json& node);
  absl::Status AddMetaspace(const nlohmann::json& node);
  absl::Status AddWordPiece(const nlohmann::json& node);
  static void Apply(const Step& step, bool first, std::string* text);

  std::vector<Step> steps_;
  bool fused_ = false;  // what follows sees one text
};

}  // namespace penstock
