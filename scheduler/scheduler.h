#pragma once

#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "scheduler/observer.h"
#include "scheduler/request.h"
#include "scheduler/token_stream.h"
#include "shard/api/executor.h"
#include "shard/base/mutex.h"

namespace penstock {

struct SchedulerOptions {
  int32_t max_queued = 1024;    // waiting sequences; beyond it Submit() refuses
  int32_t max_sequences = 0;    // running at once; 0: what the executor allows
  int32_t max_step_tokens = 0;  // 0: what the executor allows
  int32_t prefill_chunk = 256;  // most prompt tokens of one sequence in a step
};

// Continuous batching: one thread that repeats admit, plan, launch, wait, commit. Fills the executor
// first (up to its stages + 1 steps in flight), then waits for the oldest step. A failed step fails the
// executor, not the requests: it is restarted and every sequence recomputed, streams go on.
class Scheduler {
 public:
  // Borrows `executor` and `observer`, which must outlive it.
  Scheduler(const SchedulerOptions& options, Executor& executor, SchedulerObserver& observer);
  ~Scheduler();

  // Thread-safe, never blocks. ResourceExhausted when the queue is full, InvalidArgument when the request
  // could never fit, Unavailable when stopping or lost.
  absl::Status Submit(GenerateRequest request, std::shared_ptr<TokenStream> stream);

  void Start();  // begins the thread
  // Refuses new work, lets what was submitted finish until `deadline`, then closes the rest with
  // Cancelled, and joins the thread. Idempotent.
  void Stop(absl::Time deadline);

  // One turn of the loop: what the thread repeats and tests call directly. False: nothing to do.
  bool Step();

  SchedulerState state() const;  // thread-safe snapshot
};

}  // namespace penstock
