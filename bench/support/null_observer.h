#pragma once

#include "scheduler/observer.h"

namespace penstock {

// For schedulers of which only the time or the tokens are wanted.
class NullObserver final : public SchedulerObserver {
 public:
  void OnStep(const StepReport&) override {}
  void OnToken(absl::Duration) override {}
  void OnFinish(const FinishReport&) override {}
  void OnPreempt() override {}
  void OnState(const SchedulerState&) override {}
};

}  // namespace penstock
