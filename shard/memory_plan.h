#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/api/executor.h"
#include "shard/backend/backend.h"
#include "shard/comm/local_comm.h"
#include "shard/model/model_spec.h"
#include "shard/model/shard_plan.h"

namespace penstock {

struct MemoryPlanOptions {
  DType dtype = DType::kF16;
  DType kv_dtype = DType::kF16;
  int32_t max_context = 0;  // 0: the model's, or less if only less fits
  int32_t max_sequences = 64;
  // 0: 512; of a one-shot model, whose steps have whole sequences, 4096 or more.
  int32_t max_step_tokens = 0;
  int32_t kv_block_size = 16;
  // Of the whole cache, which a one-shot model has none of; 0: as many bytes as the weights take
  // (at least 256 MiB), or half of what is left if that is less, but at least one sequence of
  // max_context.
  int32_t kv_tokens = 0;
  int64_t available_bytes = 0;  // for all ranks together; 0: ask the machine
};

struct RankMemory {
  int rank = 0;
  std::string device;
  int64_t weights = 0, kv = 0, scratch = 0, comm = 0;
  int64_t available = 0;  // of the memory that it shares with the other ranks
  int64_t total() const { return weights + kv + scratch + comm; }
};

// Memory is planned before it is taken: everything that the ranks will allocate, in bytes. The
// ranks are threads of one host and share its memory.
struct MemoryPlan {
  MemoryPlanOptions options;  // with every 0 replaced by what was chosen
  ExecutorInfo info;
  std::vector<RankMemory> ranks;
  int64_t total() const;
};

// ResourceExhausted when it does not fit, with the numbers and the largest setting that would;
// InvalidArgument for settings that contradict one another.
absl::StatusOr<MemoryPlan> PlanMemory(const ModelSpec& spec, const ShardPlan& plan,
                                      const MemoryPlanOptions& options, const Backend& backend);

// The groups that join the ranks: those of a stage, and one rank of each stage.
struct GroupOptions {
  LocalCommOptions tensor, pipeline;
};
GroupOptions PlanGroups(const ModelSpec& spec, const ShardPlan& plan,
                        const MemoryPlanOptions& options);

}  // namespace penstock
