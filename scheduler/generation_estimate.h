#pragma once

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "scheduler/observer.h"
#include "scheduler/request.h"
#include "shard/base/mutex.h"

namespace penstock {

// How fast one scheduler has served lately, and when it would serve a request that comes now. Sits
// between the scheduler and its observer. Thread-safe.
//
// Of the past, the last half minute of work counts most; idle time does not count. A request waits
// for those ahead of it at the rate at which others have left (Little's law), then for its prompt
// at the rate of steps with prompts in them, then an inter-token time per token it must have. All
// of it is what must pass at least: the queue is taken as it is, and of the output only min_tokens.
class GenerationEstimate final : public SchedulerObserver {
 public:
  explicit GenerationEstimate(SchedulerObserver& next) : next_(next) {}

  void OnStep(const StepReport& report) override ABSL_LOCKS_EXCLUDED(mutex_);
  bool wants_shares() const override { return next_.wants_shares(); }
  void OnToken(absl::Duration since_previous) override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnPrefix(int32_t prompt_tokens, int32_t cached) override {
    next_.OnPrefix(prompt_tokens, cached);
  }
  void OnFinish(const FinishReport& report) override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnPreempt() override { next_.OnPreempt(); }
  void OnRecovery(const RecoveryReport& report) override { next_.OnRecovery(report); }
  void OnState(const SchedulerState& state) override { next_.OnState(state); }

  // Zero where nothing is known yet.
  absl::Duration ToStart(const SchedulerState& state) const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Duration ToFirstToken(const SchedulerState& state, int64_t prompt_tokens) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Duration BetweenTokens() const ABSL_LOCKS_EXCLUDED(mutex_);

  // ResourceExhausted, telling the estimate, when `request` would miss its deadline or its start
  // deadline.
  absl::Status CheckInTime(const GenerateRequest& request, const SchedulerState& state,
                           absl::Time now) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Sums over the past, each halved as often as kHalfLife of work has passed since.
  struct Past {
    double seconds = 0;          // of work
    double departures = 0;       // sequences that had started and have ended
    double prefill_seconds = 0;  // of the steps that carried prompt tokens
    double prefill_tokens = 0;
    double intervals = 0;  // between a sequence's tokens
    double interval_seconds = 0;
    void Fade(double seconds_passed);
  };

  SchedulerObserver& next_;
  mutable Mutex mutex_;
  Past past_ ABSL_GUARDED_BY(mutex_);
  absl::Time last_commit_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace penstock
