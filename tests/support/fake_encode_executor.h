#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "shard/api/executor.h"
#include "shard/base/mutex.h"

namespace penstock {

// Limits small enough for budgets to run out in a test.
ExecutorInfo SmallEncoderInfo();

// What a one-shot request must get, whoever runs beside it: a hash of its tokens, types (empty: all
// 0) and length, as `width` floats in [-1, 1).
std::vector<float> FakeEncode(const std::vector<int32_t>& tokens, const std::vector<int32_t>& types,
                              int32_t width);

// An encoder without a model, for tests of what stands above it. Answers with FakeEncode and checks
// every step against the contract of StepBatch and Executor.
class FakeEncodeExecutor final : public Executor {
 public:
  explicit FakeEncodeExecutor(const ExecutorInfo& info) : info_(info) {}

  const ExecutorInfo& info() const override { return info_; }
  void Launch(StepBatch batch) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<StepResult> Wait() override ABSL_LOCKS_EXCLUDED(mutex_);
  void Abort(absl::Status why) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Restart() override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status status() const override ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t epoch() const override ABSL_LOCKS_EXCLUDED(mutex_);
  PipelineStats Stats() const override;

  // Hooks, called without the lock. Set them before the thread that steps begins.
  std::function<void(const StepBatch&)> on_launch;
  std::function<absl::Status(const StepBatch&)> on_wait;  // a step's turn has come; its error or OK

  void set_step_time(absl::Duration time) ABSL_LOCKS_EXCLUDED(mutex_);  // real time in Wait()
  void set_failing_restarts(int count) ABSL_LOCKS_EXCLUDED(mutex_);
  // The results of sequences that begin with this token are not finite.
  void set_not_finite(int32_t token) ABSL_LOCKS_EXCLUDED(mutex_);
  // While held, Wait() does not return until Abort() or Release().
  void Hold() ABSL_LOCKS_EXCLUDED(mutex_) { SetHeld(true); }
  void Release() ABSL_LOCKS_EXCLUDED(mutex_) { SetHeld(false); }

  // Everything below is thread-safe.
  std::vector<std::string> violations() const ABSL_LOCKS_EXCLUDED(mutex_);  // broken contracts
  std::vector<int32_t> batch_sizes() const ABSL_LOCKS_EXCLUDED(mutex_);     // of the steps run
  int restarts() const ABSL_LOCKS_EXCLUDED(mutex_);
  int aborts() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void SetHeld(bool held) ABSL_LOCKS_EXCLUDED(mutex_);
  void CheckLaunch(const StepBatch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckSequence(const StepBatch& batch, size_t sequence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  StepResult Run(const StepBatch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Expect(bool holds, const std::string& what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ExecutorInfo info_;
  mutable Mutex mutex_;
  absl::Duration step_time_ ABSL_GUARDED_BY(mutex_);
  int failing_restarts_ ABSL_GUARDED_BY(mutex_) = 0;
  int32_t not_finite_ ABSL_GUARDED_BY(mutex_) = -1;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<StepBatch> outstanding_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 1;
  int64_t next_step_ ABSL_GUARDED_BY(mutex_) = 0;
  int restarts_ ABSL_GUARDED_BY(mutex_) = 0;
  int aborts_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<int32_t> batch_sizes_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> violations_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace penstock
