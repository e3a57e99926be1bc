#pragma once

#include <atomic>
#include <chrono>

#include "shard/base/mutex.h"

namespace penstock {

// Waiting for atomics that other threads change: spins a little, then parks. Whoever changes one
// calls Wake(). Thread-safe.
class Signal {
 public:
  // True once `condition()` is; false after `timeout`.
  template <typename Condition>
  bool Wait(Condition condition, bool spin, std::chrono::nanoseconds timeout) {
    constexpr int kSpins = 4000;  // about 20-50 us: a little longer than a peer is usually late
    for (int i = 0; spin && i < kSpins; ++i) {
      if (condition()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#elif defined(__aarch64__)
      asm volatile("yield");
#endif
    }
    parked_.fetch_add(1);
    bool met = false;
    {
      MutexLock lock(&mutex_);
      met = mutex_.AwaitFor(condition, timeout);
    }
    parked_.fetch_sub(1);
    return met;
  }

  // After a sequentially consistent change. Costs nothing while nobody is parked.
  void Wake() {
    if (parked_.load() > 0) MutexLock lock(&mutex_);
  }

 private:
  Mutex mutex_;
  std::atomic<int> parked_{0};
};

}  // namespace penstock
