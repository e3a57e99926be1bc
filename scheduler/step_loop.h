#pragma once

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "shard/base/mutex.h"

namespace penstock {

// The thread of an engine that works in steps, and how it ends. The engine derives from it, guards
// what its thread shares with others by `mutex_`, and calls Stop() in its own destructor.
class StepLoop {
 public:
  virtual ~StepLoop() = default;

  void Start() ABSL_LOCKS_EXCLUDED(mutex_);  // begins the thread; once
  // Refuses new work, lets what was submitted finish until `deadline`, then ends the rest (aborting
  // an executor that is stuck), and joins the thread; works on the caller's thread when there is
  // none. Thread-safe, idempotent; the earliest deadline counts.
  void Stop(absl::Time deadline) ABSL_LOCKS_EXCLUDED(mutex_);

  // One turn of the loop: what the thread repeats and tests call directly. False: nothing to do
  // now.
  virtual bool Step() = 0;

 protected:
  // Waits until Step() may have something to do. False when stopping and everything has ended.
  virtual bool AwaitWork() = 0;
  virtual void AbortExecutor() = 0;  // any thread; Step() then returns soon

  bool stopping() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; }
  absl::Time stop_deadline() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stop_deadline_; }

  mutable Mutex mutex_;

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);
  bool AwaitLoopEnd() ABSL_LOCKS_EXCLUDED(mutex_);

  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time stop_deadline_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  bool looping_ ABSL_GUARDED_BY(mutex_) = false;  // some thread is in Loop(), or will be
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace penstock
