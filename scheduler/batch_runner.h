#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "scheduler/batch_observer.h"
#include "scheduler/batch_planner.h"
#include "scheduler/delivery_order.h"
#include "scheduler/executor_recovery.h"
#include "scheduler/request_queue.h"
#include "scheduler/service_estimate.h"
#include "shard/api/executor.h"

namespace penstock {

// What the ranks run for `requests`: whole sequences, packed; plan_hash included.
StepBatch BuildEncodeBatch(const std::vector<const QueuedRequest*>& requests, int64_t step,
                           uint64_t epoch);

// Runs one-shot requests on an executor: plan, launch, wait, commit, and recover when a step fails.
// The part of the batcher that belongs to its one thread; nothing here is thread-safe.
class BatchRunner {
 public:
  using Clock = std::function<absl::Time()>;
  // A request that is in this many failed steps, the last of them alone, is what makes steps fail.
  static constexpr int32_t kMaxFailures = BatchPlanner::kSuspectFailures + 1;

  struct Options {
    BatchLimits limits;
    absl::Duration ageing;
    bool preserve_order = false;
    absl::Duration recovery_timeout;
  };
  struct LaunchedStep {
    int64_t step = 0;
    absl::Time launched;
    std::vector<std::unique_ptr<QueuedRequest>> requests;
    int64_t tokens = 0;
    FlushReason reason = FlushReason::kIdle;
    bool alone = false;
  };
  // A step whose result is here and whose requests have not heard of it yet.
  struct FinishedStep {
    LaunchedStep step;
    StepResult result;
    absl::Time committed;
  };

  // Borrows `executor` and `observer`.
  BatchRunner(const Options& options, Executor& executor, BatchObserver& observer, Clock clock);

  void Accept(std::unique_ptr<QueuedRequest> request);  // younger than all before
  // Ends what was cancelled or is late, tries a restart that is due, launches what should be in
  // flight. False: there was nothing to do.
  bool Prepare();
  // Waits for the oldest step; nullopt when it failed, and the recovery has begun. Needs a step in
  // flight. What was waited for is to be given to Commit(), after a Prepare() that lets the
  // executor go on meanwhile.
  std::optional<FinishedStep> AwaitOldestStep();
  void Commit(FinishedStep finished);

  // Ends every request with `status` and forgets the steps in flight.
  void CloseAll(const absl::Status& status);

  bool has_requests() const { return !queue_.empty() || has_steps(); }
  bool has_steps() const { return !steps_.empty(); }
  // When Prepare() will have something to do without any new request, while no step is in flight.
  absl::Time next_event() const;
  const absl::Status& lost() const { return recovery_.lost(); }  // OK unless given up
  const ServiceEstimate& estimate() const { return estimate_; }
  int64_t tokens_in_flight() const;
  SchedulerState state() const;

 private:
  void DropLate();
  bool Fill();
  void Launch(const BatchPlan& plan);
  absl::Status CheckResult(const LaunchedStep& step, const StepResult& result) const;
  void Report(const FinishedStep& finished);
  void Fail(const absl::Status& status);
  void End(const QueuedRequest& request, absl::StatusOr<std::vector<float>> output);

  Executor& executor_;
  BatchObserver& observer_;
  const Clock clock_;

  RequestQueue queue_;
  BatchPlanner planner_;
  DeliveryOrder delivery_;
  ExecutorRecovery recovery_;
  int64_t lost_tokens_ = 0;  // of the steps that failed since the last recovery
  ServiceEstimate estimate_;
  std::deque<LaunchedStep> steps_;  // in flight, oldest first
  int64_t next_step_ = 0;           // in the executor's epoch
  uint64_t next_order_ = 0;
  absl::Time last_progress_ = absl::InfinitePast();
};

}  // namespace penstock
