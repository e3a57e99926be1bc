#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "shard/api/executor.h"
#include "shard/api/step.h"
#include "shard/model/shard_plan.h"

namespace penstock {

// The steps that an executor has launched, and what its stages have given of them. Not thread-safe.
class StepLedger {
 public:
  explicit StepLedger(const ShardPlan& plan) : plan_(plan) {}

  // Steps of an epoch are launched in order.
  void Launch(int64_t step);
  // Counted as launched, though nothing will come of it.
  void LaunchLost() { ++unclaimed_; }
  // The share of a rank, which has one stage's timing; only those of first tensor ranks count.
  // Internal for a step that is not outstanding, or that this stage has given before.
  absl::Status Add(int rank, StepResult share);

  bool has_result() const { return !results_.empty(); }  // of the oldest step
  StepResult Take();
  int unclaimed() const { return unclaimed_; }  // launched, not yet taken

  void Stop();   // nothing is in progress any more; what is unclaimed stays so
  void Clear();  // an epoch begins

  // The clock: `elapsed` and `active`, in whole microseconds or so.
  PipelineStats Time() const;
  // Down to a multiple of about a microsecond, of which sums and differences are exact: who takes
  // bubble and idle time for counters sees none of them fall by a rounding error.
  static double Grains(double seconds);

 private:
  using Clock = std::chrono::steady_clock;
  // A launched step that some stage has not given its share of.
  struct Unfinished {
    StepResult result;
    std::vector<bool> given;  // by stage
    int missing = 0;
  };
  void SetOutstanding(int count);

  const ShardPlan plan_;
  const Clock::time_point created_ = Clock::now();
  std::deque<Unfinished> unfinished_;  // oldest first
  std::deque<StepResult> results_;
  int outstanding_ = 0;  // launched, the result not yet there
  int unclaimed_ = 0;
  Clock::duration active_{};
  Clock::time_point active_since_;
};

}  // namespace penstock
