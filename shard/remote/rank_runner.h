#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/api/step.h"
#include "shard/base/mutex.h"
#include "shard/shard.h"

namespace penstock {

// One rank of a worker, on a thread of its own: runs every launched step in order, until one fails
// or the epoch is aborted. Thread-safe.
class RankRunner {
 public:
  // Told on the rank's thread what became of a step; nothing after the first failure of an epoch.
  using Done = std::function<void(int rank, uint64_t epoch, const absl::StatusOr<StepResult>& share,
                                  const StageStats& stats)>;

  RankRunner(int rank, std::unique_ptr<Shard> shard, Done done);
  ~RankRunner();  // aborts what is in progress and joins

  void Launch(std::shared_ptr<const StepBatch> batch) ABSL_LOCKS_EXCLUDED(mutex_);
  void Abort(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);
  // Aborts the epoch before and begins this one. DeadlineExceeded, naming what the rank is still
  // doing, when that does not end within `timeout`.
  absl::Status Connect(std::unique_ptr<Communicator> tensor_group,
                       std::unique_ptr<Communicator> pipeline_group, uint64_t epoch,
                       std::chrono::milliseconds timeout) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Loop();
  std::shared_ptr<const StepBatch> Take() ABSL_LOCKS_EXCLUDED(mutex_);
  void Finish(const absl::Status& outcome) ABSL_LOCKS_EXCLUDED(mutex_);
  void Fail(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int rank_;
  const std::unique_ptr<Shard> shard_;
  const Done done_;
  Mutex mutex_;
  std::deque<std::shared_ptr<const StepBatch>> steps_ ABSL_GUARDED_BY(mutex_);
  bool connected_ ABSL_GUARDED_BY(mutex_) = false;
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace penstock
