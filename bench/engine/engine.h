#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/api/executor.h"
#include "shard/base/dtype.h"
#include "shard/checkpoint/checkpoint.h"
#include "shard/model/model_spec.h"
#include "shard/model/shard_plan.h"
#include "shard/shard_group.h"

namespace penstock {

// Makes the executor of a plan: LoadShardGroup(), or what runs the ranks elsewhere.
using ExecutorFactory = std::function<absl::StatusOr<std::unique_ptr<Executor>>(
    const Checkpoint& checkpoint, const ModelSpec& spec, const ShardPlan& plan,
    const ShardGroupOptions& options)>;
absl::StatusOr<std::unique_ptr<Executor>> RanksAsThreads(const Checkpoint& checkpoint,
                                                         const ModelSpec& spec,
                                                         const ShardPlan& plan,
                                                         const ShardGroupOptions& options);

// How a model is cut and what it computes in.
struct EngineOptions {
  int tensor = 1, pipeline = 1;
  std::vector<int> layers{};  // of each stage; empty: the automatic split
  int threads = 1;            // compute threads of each rank
  DType dtype = DType::kF16;  // of weights and KV cache
  std::string compute = "auto";
  int32_t max_context = 2560;
  int32_t max_sequences = 32;
  int32_t max_step_tokens = 512;
  int32_t kv_tokens = 32 * 384;
  ExecutorFactory make = RanksAsThreads;
};

// A model's ranks, loaded as the server would.
struct Engine {
  ModelSpec spec;
  ShardPlan plan;
  int64_t weight_bytes = 0, kv_bytes = 0, planned_bytes = 0;  // of all ranks, as planned
  std::unique_ptr<Executor> executor;
};

absl::StatusOr<Engine> LoadEngine(const Checkpoint& checkpoint, const EngineOptions& options);

}  // namespace penstock
