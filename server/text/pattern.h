#pragma once

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "server/text/regex.h"

namespace penstock {

// The field "pattern" of a Split or Replace: {"String": text} or {"Regex": expression}.
absl::StatusOr<Regex> PatternField(const nlohmann::json& node);

}  // namespace penstock
