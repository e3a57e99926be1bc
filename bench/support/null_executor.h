#pragma once

#include <chrono>
#include <cstdint>
#include <deque>

#include "shard/api/executor.h"

namespace penstock {

// An executor that computes nothing: a step is ready at once, or a fixed time after the one before.
// What it draws is a hash of step and row, below info.vocab. For measuring what lies around an
// engine.
class NullExecutor final : public Executor {
 public:
  explicit NullExecutor(const ExecutorInfo& info, std::chrono::microseconds step_time = {})
      : info_(info), step_time_(step_time) {}

  const ExecutorInfo& info() const override { return info_; }
  void Launch(StepBatch batch) override;
  absl::StatusOr<StepResult> Wait() override;
  void Abort(absl::Status) override {}
  absl::Status Restart() override { return absl::OkStatus(); }
  uint64_t epoch() const override { return 1; }
  PipelineStats Stats() const override { return {}; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Launched {
    int64_t step = 0;
    int64_t samples = 0;
    Clock::time_point ready;
  };

  const ExecutorInfo info_;
  const std::chrono::microseconds step_time_;
  std::deque<Launched> steps_;
  Clock::time_point last_ready_;
};

}  // namespace penstock
