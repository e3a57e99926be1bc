#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "shard/base/mutex.h"

namespace penstock {

// Wakes a waiting thread when a stream has news. Shared with the stream, which may outlive the
// wait.
class Doorbell {
 public:
  void Ring() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    rung_ = true;
  }
  // Returns once it was rung since the last wait, or after `timeout`.
  void AwaitFor(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    mutex_.AwaitFor(
        [this] {
          mutex_.AssertHeld();
          return rung_;
        },
        absl::ToChronoNanoseconds(timeout));
    rung_ = false;
  }

 private:
  Mutex mutex_;
  bool rung_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace penstock
