#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "shard/base/relax.h"

namespace penstock {

// Sleeps until *word is not `seen`, somebody wakes it, or the time has passed; may return early.
// Across processes, when the word lies in memory that they share.
void FutexWait(std::atomic<uint32_t>& word, uint32_t seen, std::chrono::nanoseconds at_most);
void FutexWakeAll(std::atomic<uint32_t>& word);

// Waiting for atomics that other threads or processes change: spins a little, then parks. Whoever
// changes one calls Wake(). Holds nothing that a process that dies could leave locked, and may lie
// in shared memory. Thread-safe.
class FutexSignal {
 public:
  // True once `condition()` is; false after `timeout`.
  template <typename Condition>
  bool Wait(Condition condition, bool spin, std::chrono::nanoseconds timeout) {
    constexpr int kSpins = 4000;  // about 20-50 us: a little longer than a peer is usually late
    for (int i = 0; spin && i < kSpins; ++i) {
      if (condition()) return true;
      RelaxProcessor();
    }
    return Park(condition, timeout);
  }

  // After a sequentially consistent change. Costs nothing while nobody is parked.
  void Wake() {
    if (parked_.load() == 0) return;
    changes_.fetch_add(1);
    FutexWakeAll(changes_);
  }

 private:
  template <typename Condition>
  bool Park(Condition condition, std::chrono::nanoseconds timeout) {
    using Clock = std::chrono::steady_clock;
    // A process that dies between its change and its Wake() wakes nobody.
    constexpr std::chrono::nanoseconds kRecheck = std::chrono::milliseconds(5);
    const Clock::time_point end = Clock::now() + timeout;
    parked_.fetch_add(1);
    bool met = false;
    for (;;) {
      const uint32_t seen = changes_.load();
      met = condition();
      const std::chrono::nanoseconds left = end - Clock::now();
      if (met || left.count() <= 0) break;
      FutexWait(changes_, seen, std::min(left, kRecheck));
    }
    parked_.fetch_sub(1);
    return met;
  }

  // Who dies while it is parked is counted for ever, which costs the others a system call a Wake().
  alignas(64) std::atomic<uint32_t> parked_{0};
  alignas(64) std::atomic<uint32_t> changes_{0};
};

}  // namespace penstock
