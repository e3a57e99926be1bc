#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/penstock/v1/shard.pb.h"
#include "shard/backend/cpu/cpu_backend.h"
#include "shard/checkpoint/checkpoint.h"
#include "shard/memory_plan.h"
#include "shard/model/shard_plan.h"

namespace penstock {

// What a worker is to load.
struct LoadOrder {
  std::string model_path;
  uint64_t fingerprint = 0;  // Fingerprint() of the leader's checkpoint
  std::vector<int> ranks;
  ShardPlanOptions plan;  // with the layers of each stage
  MemoryPlan memory;      // options and info; the bytes per rank stay with the leader
  CpuOptions cpu;         // of each rank; threads 0: the worker's CPUs divided by its ranks
  std::chrono::milliseconds step_timeout{60000};
  int64_t needed_bytes = 0;  // 0: not to be looked at
};

v1::Load EncodeLoad(const LoadOrder& order);

// InvalidArgument, naming the field, for what no leader would ask for.
absl::StatusOr<LoadOrder> DecodeLoad(const v1::Load& message);

// Of the configuration and the names, shapes, types and sizes of all tensors: other weights of the
// same model are not told apart.
uint64_t Fingerprint(const Checkpoint& checkpoint);

}  // namespace penstock
