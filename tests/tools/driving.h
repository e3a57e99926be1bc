#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/observer.h"
#include "scheduler/request.h"
#include "scheduler/scheduler.h"
#include "shard/api/executor.h"

namespace penstock {

// Counts preemptions and hears nothing else.
class CountingObserver : public SchedulerObserver {
 public:
  void OnStep(const StepReport&) override {}
  void OnToken(absl::Duration) override {}
  void OnFinish(const FinishReport&) override {}
  void OnPreempt() override { ++preemptions_; }
  void OnState(const SchedulerState&) override {}
  int64_t preemptions() const { return preemptions_; }

 private:
  int64_t preemptions_ = 0;
};

// What became of a batch of requests.
struct BatchResult {
  std::vector<std::vector<int32_t>> tokens;  // parallel to the requests
  int64_t preemptions = 0;
};

// Submits all requests at once to a scheduler of its own and turns it, on this thread, until every
// stream has closed. The error of the first stream that ended badly.
absl::StatusOr<BatchResult> RunAll(const SchedulerOptions& options, Executor& executor,
                                   const std::vector<GenerateRequest>& requests);

}  // namespace penstock
