#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "shard/api/executor.h"
#include "shard/base/mutex.h"

namespace penstock {

// What the pipeline's stages did with their time, asked for at each scrape:
//   penstock_stage_{busy,bubble,idle,transfer}_seconds_total{model, replica, stage}
// busy: computing. bubble: not computing though a step was in flight. idle: nothing in flight.
// transfer: moving activations. busy + bubble + idle is the time since creation.
// And of ranks in processes of their own:
//   penstock_shard_{up, restarts_total, resident_bytes}{model, replica, rank}
class StageCollector final : public prometheus::Collectable {
 public:
  explicit StageCollector(std::string model) : model_(std::move(model)) {}

  // The executor is borrowed until Watch(nullptr, replica) returns.
  void Watch(const Executor* executor, int replica) ABSL_LOCKS_EXCLUDED(mutex_);
  // Empty unless the replica is watched.
  PipelineStats Look(int replica) const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<prometheus::MetricFamily> Collect() const override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  std::vector<prometheus::MetricFamily> CollectStages() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<prometheus::MetricFamily> CollectRanks() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string model_;
  mutable Mutex mutex_;
  std::map<int, const Executor*> executors_ ABSL_GUARDED_BY(mutex_);  // by replica
};

// process_cpu_seconds_total, process_resident_memory_bytes, process_open_fds and
// process_start_time_seconds, from /proc/self at each scrape; what cannot be read is left out.
class ProcessCollector final : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override;
};

}  // namespace penstock
