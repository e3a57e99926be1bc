#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/api/executor.h"
#include "shard/backend/backend.h"
#include "shard/model/model_spec.h"
#include "shard/model/shard_plan.h"

namespace penstock {

struct MemoryPlanOptions {
  DType dtype = DType::kF16;
  DType kv_dtype = DType::kF16;
  int32_t max_context = 0;      // 0: the model's, or less if only less fits
  int32_t max_sequences = 64;
  int32_t max_step_tokens = 512;
  int32_t kv_block_size = 16;
  int32_t kv_tokens = 0;        // of the whole cache; 0: chosen from the memory available
  int64_t available_bytes = 0;  // on each device; 0: ask the machine
};

struct RankMemory {
  int rank = 0;
  std::string device;
  int64_t weights = 0, kv = 0, scratch = 0, comm = 0, available = 0;
  int64_t total() const { return weights + kv + scratch + comm; }
};

// Memory is planned before it is taken: everything a rank will allocate, in bytes.
struct MemoryPlan {
  MemoryPlanOptions options;  // with every 0 replaced by what was chosen
  ExecutorInfo info;
  std::vector<RankMemory> ranks;
};

// ResourceExhausted when it does not fit, with the numbers and the largest setting that would.
absl::StatusOr<MemoryPlan> PlanMemory(const ModelSpec& spec, const ShardPlan& plan,
                                      const MemoryPlanOptions& options, const Backend& backend);

// The smaller of what the machine and the process's cgroup have left.
int64_t AvailableHostBytes();

}  // namespace penstock
