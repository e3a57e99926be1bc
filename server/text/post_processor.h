#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace penstock {

// The "post_processor" of a tokenizer.json: where the special tokens go around one text, or around
// a text and its pair, and which segment ("type") every token belongs to. Immutable, safe to share.
class PostProcessor {
 public:
  struct Piece {
    int text;      // 0 or 1: all tokens of the first or the second text; kSpecial: the token `id`
    int32_t id;    // of a special token
    int32_t type;  // of the piece's tokens
  };
  static constexpr int kSpecial = -1;
  // Holds every text exactly once.
  using Template = std::vector<Piece>;

  // `node` may be null: no special tokens, the texts' types are 0 and 1. Unknown types, and
  // templates that don't hold every text exactly once, are errors that name them.
  static absl::StatusOr<PostProcessor> FromJson(const nlohmann::json* node);

  const Template& single() const { return single_; }
  const Template& pair() const { return pair_; }

 private:
  Template single_, pair_;
};

}  // namespace penstock
