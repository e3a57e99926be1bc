#include "server/text/split_behavior.h"

#include <algorithm>
#include <string>

#include "server/text/json_fields.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

// Joins a slice to the one before it where `joins` says so of the two.
template <typename Joins>
std::vector<MatchSlice> JoinForward(const std::vector<MatchSlice>& slices, Joins joins) {
  std::vector<MatchSlice> joined;
  bool previous = false;
  for (const MatchSlice& slice : slices) {
    if (!joined.empty() && joins(previous, slice.is_match)) {
      joined.back().end = slice.end;
    } else {
      joined.push_back(slice);
    }
    previous = slice.is_match;
  }
  return joined;
}

// A match joins the slice behind it, unless that is a match itself.
std::vector<MatchSlice> JoinBackward(const std::vector<MatchSlice>& slices) {
  std::vector<MatchSlice> joined;
  bool previous = false;
  for (auto slice = slices.rbegin(); slice != slices.rend(); ++slice) {
    if (!joined.empty() && slice->is_match && !previous) {
      joined.back().begin = slice->begin;
    } else {
      joined.push_back(*slice);
    }
    previous = slice->is_match;
  }
  std::reverse(joined.begin(), joined.end());
  return joined;
}

}  // namespace

absl::StatusOr<SplitBehavior> BehaviorField(const nlohmann::json& node) {
  ASSIGN_OR_RETURN(const std::string name, StringField(node, "behavior"));
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return FieldError(node, "behavior", "is '" + name + "', which is not known");
}

absl::StatusOr<SplitBehavior> BehaviorField(const nlohmann::json& node, SplitBehavior absent) {
  if (FindField(node, "behavior") == nullptr) return absent;
  return BehaviorField(node);
}

std::vector<MatchSlice> ApplyBehavior(SplitBehavior behavior,
                                      const std::vector<MatchSlice>& slices) {
  switch (behavior) {
    case SplitBehavior::kIsolated: return slices;
    case SplitBehavior::kRemoved: {
      std::vector<MatchSlice> kept;
      std::copy_if(slices.begin(), slices.end(), std::back_inserter(kept),
                   [](const MatchSlice& slice) { return !slice.is_match; });
      return kept;
    }
    case SplitBehavior::kContiguous:
      return JoinForward(slices, [](bool previous, bool match) { return previous == match; });
    case SplitBehavior::kMergedWithPrevious:
      return JoinForward(slices, [](bool previous, bool match) { return match && !previous; });
    case SplitBehavior::kMergedWithNext: return JoinBackward(slices);
  }
  return slices;
}

}  // namespace penstock
