#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/api/executor.h"
#include "shard/backend/cpu/cpu_backend.h"
#include "shard/checkpoint/checkpoint.h"
#include "shard/load_shards.h"
#include "shard/memory_plan.h"
#include "shard/model/model_spec.h"
#include "shard/model/shard_plan.h"

namespace penstock {

struct ShardGroupOptions {
  MemoryPlan memory;  // what PlanMemory allowed
  std::chrono::milliseconds step_timeout{60000};
  CpuOptions cpu;    // threads 0: the process's CPUs divided by all ranks, at least one
  int replicas = 1;  // groups of this size that will share the CPUs, this one included
};

// All ranks of one replica as threads of this process, with LocalComm between them.
// Loads every rank in parallel; each reads only its own part.
absl::StatusOr<std::unique_ptr<Executor>> LoadShardGroup(const Checkpoint& checkpoint,
                                                         const ModelSpec& spec,
                                                         const ShardPlan& plan,
                                                         const ShardGroupOptions& options,
                                                         LoadProgress* progress);

}  // namespace penstock
