#pragma once

#include "absl/functional/any_invocable.h"

namespace penstock {

// Threads, or a thread, that run what is posted to them.
class TaskQueue {
 public:
  virtual ~TaskQueue() = default;
  // Thread-safe, never blocks on a task.
  virtual void Post(absl::AnyInvocable<void()> task) = 0;
};

}  // namespace penstock
