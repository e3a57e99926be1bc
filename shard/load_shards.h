#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/backend/cpu/cpu_backend.h"
#include "shard/checkpoint/checkpoint.h"
#include "shard/memory_plan.h"
#include "shard/model/model_spec.h"
#include "shard/model/shard_plan.h"
#include "shard/shard.h"

namespace penstock {

// Bytes read per rank while loading; show it from another thread.
struct LoadProgress {
  explicit LoadProgress(size_t count) : ranks(count) {}
  std::vector<ReadProgress> ranks;
};

// Some ranks of a plan, read and packed in parallel, each only its own part; of cpu, threads must
// be set. `progress`, by the place in `ranks`, may be null. FailedPrecondition when the ranks would
// not compute the same bits.
absl::StatusOr<std::vector<std::unique_ptr<Shard>>> LoadShards(
    const Checkpoint& checkpoint, const ModelSpec& spec, const ShardPlan& plan,
    const std::vector<int>& ranks, const MemoryPlan& memory, const CpuOptions& cpu,
    LoadProgress* progress);

// FailedPrecondition unless ranks with these signatures compute the same bits.
absl::Status CheckSignatures(const std::vector<std::string>& signatures);

}  // namespace penstock
