#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "shard/api/executor.h"
#include "shard/base/mutex.h"
#include "tests/support/fake_model.h"

namespace penstock {

// Limits small enough for blocks, slots and budgets to run out in a test.
ExecutorInfo SmallExecutorInfo();

// An executor without a model, for tests of what stands above it. It keeps a KV cache of token ids
// and draws each token from what it reads there (FakeModel), so a wrong block, slot, position or
// order changes the tokens; and it checks every step against the contract of StepBatch and
// Executor.
class FakeExecutor : public Executor {
 public:
  explicit FakeExecutor(const ExecutorInfo& info);

  const ExecutorInfo& info() const override { return info_; }
  void Launch(StepBatch batch) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<StepResult> Wait() override ABSL_LOCKS_EXCLUDED(mutex_);
  void Abort(absl::Status why) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Restart() override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status status() const override ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t epoch() const override ABSL_LOCKS_EXCLUDED(mutex_);
  PipelineStats Stats() const override;

  // Faults. Set them before the thread that steps begins, or through atomics of your own.
  // OK, or the error of this step; called when its turn has come.
  using Fault = std::function<absl::Status(const StepBatch&)>;
  void set_fault(Fault fault) { fault_ = std::move(fault); }
  void set_step_time(absl::Duration time) { step_time_ = time; }
  // The logits of requests with this seed are not finite from this position on.
  void set_not_finite(uint64_t seed, int32_t position) { not_finite_ = {seed, position}; }
  void set_failing_restarts(int count) { failing_restarts_ = count; }
  // While held, Wait() does not return until Abort() or Release().
  void Hold() ABSL_LOCKS_EXCLUDED(mutex_);
  void Release() ABSL_LOCKS_EXCLUDED(mutex_);

  // Everything below is thread-safe.
  std::vector<std::string> violations() const ABSL_LOCKS_EXCLUDED(mutex_);  // broken contracts
  int64_t steps_run() const ABSL_LOCKS_EXCLUDED(mutex_);
  int restarts() const ABSL_LOCKS_EXCLUDED(mutex_);
  int aborts() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct KvEntry {
    int32_t token = -1;  // -1: never written in this epoch
    int32_t position = -1;
  };
  struct Slot {
    bool assigned = false;
    SlotAssignment assignment;
    std::vector<int32_t> drawn;  // what penalties would count
  };

  void CheckLaunch(const StepBatch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckShape(const StepBatch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckSequence(const StepBatch& batch, size_t sequence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckBlockOwners(const StepBatch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  StepResult Run(const StepBatch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ApplyAssignments(const StepBatch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<int32_t> ReadContext(const StepBatch& batch, size_t sequence)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  SampledToken Sample(const SampleRow& row, const std::vector<int32_t>& context)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Expect(bool holds, const std::string& what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ExecutorInfo info_;
  Fault fault_;
  absl::Duration step_time_ = absl::ZeroDuration();
  int failing_restarts_ = 0;
  std::optional<std::pair<uint64_t, int32_t>> not_finite_;

  mutable Mutex mutex_;
  std::deque<StepBatch> outstanding_ ABSL_GUARDED_BY(mutex_);
  std::vector<KvEntry> cache_ ABSL_GUARDED_BY(mutex_);
  std::vector<Slot> slots_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 1;
  int64_t next_launch_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t steps_run_ ABSL_GUARDED_BY(mutex_) = 0;
  int restarts_ ABSL_GUARDED_BY(mutex_) = 0;
  int aborts_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> violations_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace penstock
