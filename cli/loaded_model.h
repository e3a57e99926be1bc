#pragma once

#include "absl/time/time.h"
#include "scheduler/encoder.h"
#include "scheduler/generator.h"
#include "server/served_model.h"

namespace penstock {

// A model with its weights in place and what schedules its requests.
class LoadedModel {
 public:
  virtual ~LoadedModel() = default;

  virtual Generator* generator() { return nullptr; }  // one of
  virtual Encoder* encoder() { return nullptr; }      // the two
  virtual const ExecutorInfo& info() const = 0;
  virtual void Start() = 0;
  virtual void Stop(
      absl::Time deadline) = 0;  // Scheduler::Stop, or StepLoop::Stop, of each replica
};

}  // namespace penstock
