#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/api/executor.h"
#include "shard/base/mutex.h"
#include "shard/busy_meter.h"
#include "shard/memory_plan.h"
#include "shard/model/shard_plan.h"
#include "shard/shard.h"
#include "shard/step_ledger.h"

namespace penstock {

// One thread per rank, each running every launched step in order. The driver's results come back in
// order; the first error of any rank fails them all until Restart(). Thread-safe.
class RankThreads {
 public:
  RankThreads(const ShardPlan& plan, const GroupOptions& groups,
              std::vector<std::unique_ptr<Shard>> shards);
  // Aborts what is in progress and joins.
  ~RankThreads();

  void Launch(std::shared_ptr<const StepBatch> batch) ABSL_LOCKS_EXCLUDED(mutex_);
  // The oldest outstanding step's result; DeadlineExceeded, naming who is late with what, after
  // `timeout`.
  absl::StatusOr<StepResult> Wait(std::chrono::milliseconds timeout) ABSL_LOCKS_EXCLUDED(mutex_);
  void Abort(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Restart(std::chrono::milliseconds timeout) ABSL_LOCKS_EXCLUDED(mutex_);

  int outstanding() const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status failure() const ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t epoch() const ABSL_LOCKS_EXCLUDED(mutex_);
  PipelineStats Stats() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Rank {
    std::unique_ptr<Shard> shard;
    int64_t taken = 0;     // steps of this epoch it has begun
    bool running = false;  // a step
    StageStats stats;
    mutable BusyMeter busy;
  };

  void Loop(size_t index);
  // Waits for the next step; null at the end.
  std::shared_ptr<const StepBatch> Take(size_t index) ABSL_LOCKS_EXCLUDED(mutex_);
  void Give(size_t index, absl::StatusOr<StepResult> result) ABSL_LOCKS_EXCLUDED(mutex_);
  void Connect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fail(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Late() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ShardPlan plan_;
  const GroupOptions groups_;

  mutable Mutex mutex_;
  std::vector<Rank> ranks_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::shared_ptr<const StepBatch>> steps_ ABSL_GUARDED_BY(mutex_);
  int64_t first_step_ ABSL_GUARDED_BY(mutex_) = 0;  // steps_.front()'s place in this epoch
  StepLedger ledger_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> threads_;
};

}  // namespace penstock
