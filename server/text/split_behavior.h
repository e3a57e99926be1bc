#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "server/text/regex.h"

namespace penstock {

// What becomes of a delimiter where a text is cut at it.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// The field "behavior"; `absent` when there is none.
absl::StatusOr<SplitBehavior> BehaviorField(const nlohmann::json& node);
absl::StatusOr<SplitBehavior> BehaviorField(const nlohmann::json& node, SplitBehavior absent);

// The slices that remain of `slices`, which cover a text in order (matches are the delimiters).
std::vector<MatchSlice> ApplyBehavior(SplitBehavior behavior,
                                      const std::vector<MatchSlice>& slices);

}  // namespace penstock
