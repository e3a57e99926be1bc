#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
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
#include "shard/remote/remote_worker.h"

namespace penstock {

struct RemoteGroupOptions {
  MemoryPlan memory;       // what PlanMemory allowed
  std::string model_path;  // where workers find the checkpoint
  CpuOptions cpu;          // threads 0: of each host, the CPUs divided by its ranks
  int replicas = 1;        // groups of this size on this host, this one included
  std::chrono::milliseconds step_timeout{60000};
  std::chrono::milliseconds join_timeout{10000};   // of the ranks with one another
  std::chrono::milliseconds start_timeout{60000};  // for workers elsewhere to be there at first
  // Who runs which ranks, each exactly one; empty: a process of this host per rank.
  std::vector<WorkerPlace> places;
  // Workers that nobody needs yet: one takes the place of a worker elsewhere that is lost, whose
  // address is then the last of them.
  std::vector<std::string> spares;
  RemoteWorkerOptions worker;
  bool link_test = true;  // when ranks join for the first time
  // Told what happens, and what should not have; from any thread.
  std::function<void(const std::string& event)> log = [](const std::string&) {};
  std::function<void(const std::string& event)> warn = [](const std::string&) {};
};

// All ranks of one replica in processes of their own, on this host or others: Executor's contract,
// with Restart() bringing back what was lost and nothing else: workers that are left keep their
// weights. A lost worker is noticed at once when its process or its connection ends, otherwise by
// its silence or by the step's timeout.
absl::StatusOr<std::unique_ptr<Executor>> LoadRemoteGroup(const Checkpoint& checkpoint,
                                                          const ModelSpec& spec,
                                                          const ShardPlan& plan,
                                                          const RemoteGroupOptions& options,
                                                          LoadProgress* progress);

}  // namespace penstock
