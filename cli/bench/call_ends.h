#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "cli/bench/request_record.h"
#include "shard/base/mutex.h"

namespace penstock {

class Call;

// Where calls end: gRPC's threads add them, the thread of the run takes them and destroys them.
// Shared by both, since a thread of gRPC may still be leaving Add() when the run is over.
class CallEnds {
 public:
  void AddTokens(int64_t tokens) { tokens_.fetch_add(tokens, std::memory_order_relaxed); }
  int64_t tokens() const { return tokens_.load(std::memory_order_relaxed); }

  // The call may be gone when this returns.
  void Add(std::shared_ptr<Call> call, RequestRecord record) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    ended_.emplace_back(std::move(call), std::move(record));
  }
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    stopped_ = true;
  }

  struct News {
    std::vector<std::pair<std::shared_ptr<Call>, RequestRecord>> ended;
    bool stopped = false;
  };
  // What has ended since it was asked last; waits for the first, or for Stop() unless it is known,
  // up to `wait`.
  News Await(absl::Duration wait, bool stop_known) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    const auto news = [this, stop_known] {
      mutex_.AssertHeld();
      return !ended_.empty() || stopped_ != stop_known;
    };
    if (wait > absl::ZeroDuration()) mutex_.AwaitFor(news, absl::ToChronoNanoseconds(wait));
    return {std::exchange(ended_, {}), stopped_};
  }

 private:
  std::atomic<int64_t> tokens_{0};
  Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::pair<std::shared_ptr<Call>, RequestRecord>> ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace penstock
