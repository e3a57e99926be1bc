#pragma once

#include <set>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "shard/base/mutex.h"

namespace penstock {

// Rings alarms at their times from a thread of its own, so that a deadline passes when it passes
// and not when something else happens to be looked at. (grpc::Alarm cannot tell when its callback
// has returned, so what the callback uses could not be let go.) Thread-safe.
class Timer {
 public:
  // One time that may be changed. Of one owner, which uses it from one thread at a time.
  class Alarm {
   public:
    // `ring` runs on the timer's thread, under its lock: it must be quick and not call the timer.
    Alarm(Timer& timer, absl::AnyInvocable<void()> ring);
    ~Alarm() { Cancel(); }
    Alarm(const Alarm&) = delete;
    Alarm& operator=(const Alarm&) = delete;

    // Instead of the time set before. It rings once; infinitely far, never.
    void Set(absl::Time time);
    // Once this has returned it does not ring.
    void Cancel() { Set(absl::InfiniteFuture()); }
    absl::Time time() const { return time_; }  // last set, whether it has rung or not

   private:
    friend class Timer;
    Timer& timer_;
    absl::AnyInvocable<void()> ring_;
    absl::Time time_ = absl::InfiniteFuture();
  };

  Timer();
  ~Timer();  // after every alarm

 private:
  void Replace(Alarm& alarm, absl::Time before, absl::Time after) ABSL_LOCKS_EXCLUDED(mutex_);
  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Time next() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::set<std::pair<absl::Time, Alarm*>> alarms_ ABSL_GUARDED_BY(mutex_);  // that will ring
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace penstock
