#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace penstock {

// Parses JSON that nobody vouches for: never throws. InvalidArgument, naming `source` and the byte,
// for what is not JSON, for a key that occurs twice in one object and for nesting deeper than 64.
absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text, absl::string_view source);

// The member `key` of `value`; null when `value` is no object or lacks it.
const nlohmann::json* FindMember(const nlohmann::json& value, absl::string_view key);

}  // namespace penstock
