#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "scheduler/executor_recovery.h"
#include "scheduler/observer.h"
#include "scheduler/sequence.h"
#include "scheduler/sequence_table.h"
#include "scheduler/step_planner.h"
#include "shard/api/executor.h"

namespace penstock {

// Runs sequences on an executor: plan, launch, wait, commit, and recover when a step fails. The
// part of the scheduler that belongs to its one thread; nothing here is thread-safe.
class SequenceRunner {
 public:
  // A sequence that is in this many failed steps, the last of them alone, without a committed token
  // in between, is what makes steps fail.
  static constexpr int32_t kMaxFailures = StepPlanner::kSuspectFailures + 1;

  struct Limits {
    int32_t max_sequences = 0;
    int32_t max_step_tokens = 0;
    int32_t prefill_chunk = 0;
    int32_t max_unread = INT32_MAX;
    absl::Duration recovery_timeout;
    absl::Duration ageing;
    absl::Duration max_decode_delay;
    bool prefix_cache = true;
    Batching batching = Batching::kContinuous;
  };

  // Borrows `executor` and `observer`.
  SequenceRunner(const Limits& limits, Executor& executor, SchedulerObserver& observer);

  // Closed at once when it is complete already or the executor is lost.
  void Accept(std::unique_ptr<Sequence> sequence);

  // Drops what was cancelled, tries a restart that is due, launches what fits in flight. False:
  // there was nothing to do.
  bool Prepare();
  // Waits for the oldest step and commits it; a failure begins the recovery. Needs a step in
  // flight.
  void FinishOldestStep();

  // Ends every stream with `status` and forgets the steps in flight.
  void CloseAll(const absl::Status& status);

  bool has_sequences() const { return !table_.empty(); }
  bool has_steps() const { return !steps_.empty(); }
  // When the next restart is due; infinitely far when there is none to do.
  absl::Time next_attempt() const { return recovery_.next_attempt(); }
  const absl::Status& lost() const { return recovery_.lost(); }  // OK unless given up
  SchedulerState state() const;

 private:
  struct LaunchedStep {
    int64_t step = 0;
    absl::Time launched;
    StepPlan plan;
    int32_t samples = 0;
    int32_t prefill_sequences = 0;
    std::vector<StepShare> shares{};  // when the observer wants them
  };

  void DropEnded();
  bool AllPaused() const;
  bool Fill();
  void Launch(StepPlan plan);
  absl::Status CheckResult(const LaunchedStep& step, const StepResult& result) const;
  void Commit(const LaunchedStep& step, StepResult result);
  void CommitToken(Sequence& sequence, SampledToken token, absl::Time now);
  void End(Sequence& sequence, FinishReason reason);
  void RetirePadding();
  void MeasurePrefill(const StepPlan& plan, const std::vector<StageTiming>& stages);
  void Close(Sequence& sequence, FinishReason reason, const absl::Status& status);
  void CloseRunning(Sequence& sequence, FinishReason reason, const absl::Status& status);

  // sequence_recovery.cc
  void Fail(const absl::Status& status);
  void BlameSequencesInFlight(const absl::Status& status);
  void ForgetSteps();
  bool TryRestart();

  const Limits limits_;
  Executor& executor_;
  SchedulerObserver& observer_;

  SequenceTable table_;
  StepPlanner planner_;
  std::deque<LaunchedStep> steps_;  // in flight, oldest first
  int32_t sampling_steps_ = 0;      // of those
  int64_t next_step_ = 0;           // in the executor's epoch
  uint64_t next_id_ = 0;
  double row_seconds_ = 0;  // of the slowest stage, for a row in a step with prompts; 0: unknown
  size_t next_waiting_check_ = 0;
  absl::Time last_progress_ = absl::InfinitePast();
  ExecutorRecovery recovery_;
  int64_t lost_tokens_ = 0;  // computed in vain since the last recovery
};

}  // namespace penstock
