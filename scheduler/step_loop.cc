#include "scheduler/step_loop.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "shard/base/thread_name.h"

namespace penstock {

void StepLoop::Loop() {
  while (Step() || AwaitWork()) {
  }
  MutexLock lock(&mutex_);
  looping_ = false;
}

void StepLoop::Start() {
  MutexLock lock(&mutex_);
  if (looping_ || stopping_) return;
  looping_ = true;
  thread_ = std::thread([this] {
    NameThread("scheduler");
    Loop();
  });
}

void StepLoop::Stop(absl::Time deadline) {
  std::thread thread;
  bool work_here = false;
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    stop_deadline_ = std::min(stop_deadline_, deadline);
    thread.swap(thread_);
    work_here = !looping_;  // without a thread, or after it: then there is nothing left
    looping_ = true;
  }
  if (work_here) return Loop();
  if (!AwaitLoopEnd()) AbortExecutor();
  if (thread.joinable()) thread.join();
  MutexLock lock(&mutex_);
  mutex_.Await([this] {
    mutex_.AssertHeld();
    return !looping_;
  });
}

// False when the deadline, which another Stop() may have moved, came first.
bool StepLoop::AwaitLoopEnd() {
  MutexLock lock(&mutex_);
  while (looping_ && absl::Now() < stop_deadline_) {
    const absl::Time until = stop_deadline_;
    const auto changed = [&] {
      mutex_.AssertHeld();
      return !looping_ || stop_deadline_ < until;
    };
    mutex_.AwaitFor(changed, absl::ToChronoNanoseconds(std::clamp(
                                 until - absl::Now(), absl::ZeroDuration(), absl::Hours(1))));
  }
  return !looping_;
}

}  // namespace penstock
