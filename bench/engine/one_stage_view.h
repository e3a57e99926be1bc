#pragma once

#include <utility>

#include "shard/api/executor.h"

namespace penstock {

// Tells the scheduler that there is one stage only, so that it cuts a prompt into chunks as it is
// told and not as would suit the pipeline. Everything else passes through.
class OneStageView final : public Executor {
 public:
  explicit OneStageView(Executor& executor) : executor_(executor), info_(executor.info()) {
    info_.stages = 1;
  }

  const ExecutorInfo& info() const override { return info_; }
  void Launch(StepBatch batch) override { executor_.Launch(std::move(batch)); }
  absl::StatusOr<StepResult> Wait() override { return executor_.Wait(); }
  void Abort(absl::Status why) override { executor_.Abort(std::move(why)); }
  absl::Status Restart() override { return executor_.Restart(); }
  uint64_t epoch() const override { return executor_.epoch(); }
  PipelineStats Stats() const override { return executor_.Stats(); }

 private:
  Executor& executor_;
  ExecutorInfo info_;
};

}  // namespace penstock
