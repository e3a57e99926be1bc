#pragma once

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "scheduler/batch_observer.h"
#include "scheduler/batch_runner.h"
#include "scheduler/encoder.h"
#include "scheduler/service_estimate.h"
#include "scheduler/step_loop.h"
#include "shard/api/executor.h"

namespace penstock {

struct BatcherOptions {
  int32_t max_batch = 0;         // requests in a step; 0: what the executor allows
  int32_t max_batch_tokens = 0;  // 0: what the executor allows; a longer request runs alone
  absl::Duration max_queue_delay = absl::ZeroDuration();  // of the oldest, for company
  std::vector<int32_t> preferred_sizes = {};  // a batch that reaches one is sent at once
  int32_t max_queued = 1024;  // requests beyond those that can start; then Submit() refuses
  absl::Duration ageing = absl::Seconds(10);  // of waiting, worth one level of priority; 0: none
  bool preserve_order = false;  // results in the order of arrival; priorities then have no say
  bool refuse_late = false;     // at once, what cannot be served in time by the current estimate
  absl::Duration recovery_timeout = absl::Seconds(60);  // for restarting a failed executor
};

// Dynamic batching of one-shot requests: one thread that repeats admit, plan, launch, wait, commit.
// What is sent when is the BatchPlanner's choice. A failed step fails the executor, not the
// requests: it is restarted and they run again. A request in whose company steps fail again and
// again ends with Internal; all end with Unavailable when the executor cannot be restarted within
// the recovery timeout.
class RequestBatcher final : public Encoder, public StepLoop {
 public:
  using Clock = BatchRunner::Clock;

  // Borrows `executor`, whose model is a one-shot one, and `observer`; both must outlive it.
  // `clock` is for tests that call Step(): the thread sleeps by the real one.
  RequestBatcher(const BatcherOptions& options, Executor& executor, BatchObserver& observer,
                 Clock clock = absl::Now);
  ~RequestBatcher() override;  // Stop(absl::InfinitePast())

  absl::Status Submit(EncodeRequest request, std::shared_ptr<EncodeReply> reply) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  bool Step() override ABSL_LOCKS_EXCLUDED(mutex_);
  SchedulerState state() const override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  bool AwaitWork() override ABSL_LOCKS_EXCLUDED(mutex_);
  void AbortExecutor() override;
  bool TakeSubmitted() ABSL_LOCKS_EXCLUDED(mutex_);
  void PublishState() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CheckCapacity() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckInTime(const EncodeRequest& request, absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const BatcherOptions options_;  // resolved: zeros replaced
  Executor& executor_;
  BatchObserver& observer_;
  const Clock clock_;
  BatchRunner runner_;  // the batcher thread's

  std::vector<std::unique_ptr<QueuedRequest>> submitted_ ABSL_GUARDED_BY(mutex_);
  int64_t submitted_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  SchedulerState state_ ABSL_GUARDED_BY(mutex_);  // without submitted_
  ServiceEstimate estimate_ ABSL_GUARDED_BY(mutex_);
  int64_t tokens_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace penstock
