#pragma once

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "scheduler/generator.h"
#include "scheduler/observer.h"
#include "scheduler/request.h"
#include "scheduler/sequence_runner.h"
#include "scheduler/step_loop.h"
#include "scheduler/token_stream.h"
#include "shard/api/executor.h"

namespace penstock {

struct SchedulerOptions {
  int32_t max_queued = 1024;    // sequences beyond those that can start; then Submit() refuses
  int32_t max_sequences = 0;    // running at once; 0: what the executor allows
  int32_t max_step_tokens = 0;  // 0: what the executor allows
  int32_t prefill_chunk = 256;  // prompt tokens of one sequence in a step; and of all of them
                                // together while others decode
  absl::Duration recovery_timeout = absl::Seconds(60);  // for restarting a failed executor
  absl::Duration ageing = absl::Seconds(10);  // of waiting, worth one level of priority; 0: none
  // How long prompts may hold up sequences that decode, in each of their rounds; zero: only
  // prefill_chunk bounds it.
  absl::Duration max_decode_delay = absl::Milliseconds(250);
  int32_t max_unread_tokens = 1024;  // left by a reader before its sequence pauses
  bool prefix_cache = true;          // keep the blocks of ended sequences while there is room
  Batching batching = Batching::kContinuous;
};

// Continuous batching: one thread that repeats admit, plan, launch, wait, commit. Fills the
// executor first (up to its stages + 1 steps in flight), then waits for the oldest step. A failed
// step fails the executor, not the requests: it is restarted and every sequence recomputed, streams
// go on. A request in whose company steps fail again and again ends with Internal; all end with
// Unavailable when the executor cannot be restarted within the recovery timeout.
class Scheduler final : public Generator, public StepLoop {
 public:
  // Borrows `executor` and `observer`, which must outlive it.
  Scheduler(const SchedulerOptions& options, Executor& executor, SchedulerObserver& observer);
  ~Scheduler() override;  // Stop(absl::InfinitePast())

  absl::Status Submit(GenerateRequest request, std::shared_ptr<TokenStream> stream) override
      ABSL_LOCKS_EXCLUDED(mutex_);

  bool Step() override ABSL_LOCKS_EXCLUDED(mutex_);

  SchedulerState state() const override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  bool AwaitWork() override ABSL_LOCKS_EXCLUDED(mutex_);
  void AbortExecutor() override;
  bool TakeSubmitted() ABSL_LOCKS_EXCLUDED(mutex_);
  void PublishState() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CheckCapacity() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SchedulerOptions options_;  // zeros replaced
  Executor& executor_;
  SchedulerObserver& observer_;
  SequenceRunner runner_;  // the scheduler thread's

  std::vector<std::unique_ptr<Sequence>> submitted_ ABSL_GUARDED_BY(mutex_);
  SchedulerState state_ ABSL_GUARDED_BY(mutex_);  // without submitted_
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace penstock
