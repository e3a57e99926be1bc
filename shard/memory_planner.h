#pragma once

#include <cstdint>
#include <vector>

#include "shard/backend/backend.h"
#include "shard/memory_plan.h"
#include "shard/model/model_spec.h"
#include "shard/model/shard_plan.h"

namespace penstock {

// Answers what a setting would cost; what PlanMemory() decides follows from that. Borrows all but
// the options.
class MemoryPlanner {
 public:
  MemoryPlanner(const ModelSpec& spec, const ShardPlan& plan, const MemoryPlanOptions& options,
                const Backend& backend)
      : spec_(spec), plan_(plan), options_(options), backend_(backend) {}

  // All ranks, with the KV cache of `blocks` blocks.
  std::vector<RankMemory> Ranks(int32_t max_context, int64_t blocks) const;
  int64_t Total(int32_t max_context, int64_t blocks) const;  // bytes

  MemoryPlanner WithStepTokens(int64_t tokens) const;
  int64_t Blocks(int64_t tokens) const;  // that hold them

  // The largest value in [0, most] for which `fits` holds; it must be monotonous.
  template <typename Fits>
  static int64_t Largest(int64_t most, Fits fits) {
    int64_t low = 0, high = most;
    while (low < high) {
      const int64_t middle = low + (high - low + 1) / 2;
      if (fits(middle))
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  }

 private:
  RankMemory Measure(int rank, int32_t max_context, int64_t blocks) const;
  // A group's buffers are counted at its first rank.
  int64_t CommBytes(int rank) const;

  const ModelSpec& spec_;
  const ShardPlan& plan_;
  const MemoryPlanOptions options_;
  const Backend& backend_;
};

}  // namespace penstock
