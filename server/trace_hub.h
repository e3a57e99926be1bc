#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "scheduler/batch_observer.h"
#include "scheduler/observer.h"
#include "shard/base/mutex.h"

namespace penstock {

// A step of a scheduler or a batcher, committed. `encode`: of a batcher; `report.prefill_tokens`
// then counts what was encoded.
struct TracedStep {
  int replica = 0;
  bool encode = false;
  StepReport report;
};

struct TracedState {
  int replica = 0;
  absl::Time at;
  SchedulerState state;
};

// What one tracer has been told and not yet taken. Bounded: when its reader is too slow, the newest
// is lost and counted; who reports never waits. Thread-safe.
class TraceRecording {
 public:
  // Keeps at most `capacity` rows: one per step or state, and one per sequence of a step.
  explicit TraceRecording(int64_t capacity) : capacity_(capacity) {}

  void Add(const std::shared_ptr<const TracedStep>& step) ABSL_LOCKS_EXCLUDED(mutex_);
  void Add(const TracedState& state) ABSL_LOCKS_EXCLUDED(mutex_);

  // Nothing that was launched or told at `end` or later is recorded.
  void SetEnd(absl::Time end) ABSL_LOCKS_EXCLUDED(mutex_);
  // After SetEnd: every step launched before has been committed, as far as was told.
  bool settled() const ABSL_LOCKS_EXCLUDED(mutex_);

  struct Batch {
    std::vector<std::shared_ptr<const TracedStep>> steps;
    std::vector<TracedState> states;
    int64_t lost_steps = 0, lost_states = 0;  // since the last Take
    bool more = false;                        // there is more to take
  };
  // The oldest, about `rows` rows.
  Batch Take(int64_t rows) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  bool Fits(int64_t rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t capacity_;
  mutable Mutex mutex_;
  std::deque<std::shared_ptr<const TracedStep>> steps_ ABSL_GUARDED_BY(mutex_);
  std::deque<TracedState> states_ ABSL_GUARDED_BY(mutex_);
  int64_t rows_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t lost_steps_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t lost_states_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time end_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  std::map<int, bool> in_flight_ ABSL_GUARDED_BY(mutex_);  // by replica: steps from before the end
};

// Where replicas' reports meet those who trace. Costs one atomic look per report while nobody does.
// Thread-safe.
class TraceHub {
 public:
  bool tracing() const { return tracers_.load(std::memory_order_acquire) > 0; }

  // The recording is told everything until Remove() has returned.
  void Add(std::shared_ptr<TraceRecording> recording) ABSL_LOCKS_EXCLUDED(mutex_);
  void Remove(const std::shared_ptr<TraceRecording>& recording) ABSL_LOCKS_EXCLUDED(mutex_);

  void OnStep(int replica, const StepReport& report) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnBatch(int replica, const BatchReport& report) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnState(int replica, const SchedulerState& state) ABSL_LOCKS_EXCLUDED(mutex_);
  int tracers() const { return tracers_.load(std::memory_order_acquire); }

 private:
  void Tell(TracedStep step) ABSL_LOCKS_EXCLUDED(mutex_);

  std::atomic<int> tracers_{0};
  Mutex mutex_;
  std::vector<std::shared_ptr<TraceRecording>> recordings_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace penstock
