#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "shard/api/executor.h"

namespace penstock {

// Stages that compute nothing and take exactly the time they should, by a clock of their own: what
// is idle here is the scheduler's doing. A step moves from stage to stage without delay; Wait()
// turns the clock to its end. Every draw is token 1. Timings are in nanoseconds from 0.
class SimulatedPipeline final : public Executor {
 public:
  struct StageCost {
    int64_t weights = 0;  // ns to read them: no step is shorter
    int64_t row = 0;      // ns per row that attends to nothing
  };

  // One cost per stage; `info` says the rest.
  SimulatedPipeline(ExecutorInfo info, std::vector<StageCost> costs)
      : info_(std::move(info)), costs_(std::move(costs)), free_(costs_.size()) {
    info_.stages = static_cast<int32_t>(costs_.size());
    info_.max_in_flight = info_.stages + 1;
  }

  int64_t now() const { return now_; }
  void SkipTo(int64_t time) { now_ = std::max(now_, time); }

  const ExecutorInfo& info() const override { return info_; }
  void Launch(StepBatch batch) override {
    StepResult result;
    result.step = batch.step;
    result.samples.assign(batch.samples.size(), {.token = 1, .top = {}});
    int64_t input = now_;
    for (size_t stage = 0; stage < costs_.size(); ++stage) {
      const int64_t begin = std::max(input, free_[stage]);
      input = free_[stage] = begin + Duration(batch, costs_[stage]);
      result.stages.push_back({.begin = begin, .end = input});
    }
    steps_.push_back(std::move(result));
  }
  absl::StatusOr<StepResult> Wait() override {
    StepResult result = std::move(steps_.front());
    steps_.pop_front();
    now_ = std::max(now_, result.stages.back().end);
    return result;
  }
  void Abort(absl::Status) override {}
  absl::Status Restart() override { return absl::OkStatus(); }
  uint64_t epoch() const override { return 0; }
  PipelineStats Stats() const override { return {}; }

 private:
  int64_t Duration(const StepBatch& batch, const StageCost& cost) const {
    double rows = 0;
    for (size_t i = 0; i < batch.context_lens.size(); ++i) {
      const double tokens = batch.seq_begin[i + 1] - batch.seq_begin[i];
      rows += tokens * (1 + info_.context_cost * (batch.context_lens[i] - tokens / 2));
    }
    return std::max(cost.weights, static_cast<int64_t>(rows * static_cast<double>(cost.row)));
  }

  ExecutorInfo info_;
  const std::vector<StageCost> costs_;
  std::vector<int64_t> free_;  // [stages] when each will have done what it was given
  std::deque<StepResult> steps_;
  int64_t now_ = 0;
};

}  // namespace penstock
