#include "server/timer.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "shard/base/thread_name.h"

namespace penstock {

Timer::Alarm::Alarm(Timer& timer, absl::AnyInvocable<void()> ring)
    : timer_(timer), ring_(std::move(ring)) {}

void Timer::Alarm::Set(absl::Time time) {
  timer_.Replace(*this, time_, time);
  time_ = time;
}

Timer::Timer() : thread_([this] { Loop(); }) {}

Timer::~Timer() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void Timer::Replace(Alarm& alarm, absl::Time before, absl::Time after) {
  MutexLock lock(&mutex_);
  alarms_.erase({before, &alarm});
  if (after != absl::InfiniteFuture()) alarms_.emplace(after, &alarm);
}

absl::Time Timer::next() const {
  return alarms_.empty() ? absl::InfiniteFuture() : alarms_.begin()->first;
}

void Timer::Loop() {
  NameThread("timer");
  MutexLock lock(&mutex_);
  while (!stopping_) {
    const absl::Time until = next();
    const absl::Duration wait = until - absl::Now();
    if (wait <= absl::ZeroDuration()) {
      Alarm* alarm = alarms_.begin()->second;
      alarms_.erase(alarms_.begin());
      alarm->ring_();
      continue;
    }
    const auto changed = [this, until] {
      mutex_.AssertHeld();
      return stopping_ || next() < until;
    };
    mutex_.AwaitFor(changed, absl::ToChronoNanoseconds(std::min(wait, absl::Hours(1))));
  }
}

}  // namespace penstock
