#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/api/executor.h"
#include "shard/checkpoint/checkpoint.h"
#include "shard/model/model_spec.h"
#include "shard/model/shard_plan.h"

namespace penstock {

// A model's ranks, loaded as the server would, one compute thread each.
struct Engine {
  ModelSpec spec;
  ShardPlan plan;
  std::unique_ptr<Executor> executor;
};

// `layers` of each stage; empty: the automatic split. f16 weights and KV cache, room for 32
// sequences of 384 tokens on average and at most 2,560.
absl::StatusOr<Engine> LoadEngine(const Checkpoint& checkpoint, int pipeline,
                                  std::vector<int> layers = {});

}  // namespace penstock
