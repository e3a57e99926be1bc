#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace penstock {

// The "post_processor" of a tokenizer.json, reduced to what matters for one text: the tokens that
// go before and behind it.
struct PostProcessor {
  std::vector<int32_t> prefix, suffix;

  // `node` may be null. Unknown types, and templates that don't hold the text exactly once, are
  // errors.
  static absl::StatusOr<PostProcessor> FromJson(const nlohmann::json* node);
};

}  // namespace penstock
