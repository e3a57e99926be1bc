#pragma once

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "scheduler/request.h"
#include "shard/base/mutex.h"

namespace penstock {

// When a sequence passed each stage; infinite past where it has not.
struct SequenceTimes {
  absl::Time arrival = absl::InfinitePast();
  absl::Time first_scheduled = absl::InfinitePast();
  absl::Time first_token = absl::InfinitePast();
  absl::Time last_token = absl::InfinitePast();
  int32_t preemptions = 0;
  int32_t cached_tokens = 0;  // of the prompt, found in the prefix cache when it first started
};

// The way back: the scheduler writes committed tokens, one RPC reads them. Held by both through
// shared_ptr, so neither outlives what it uses. Writing never blocks; max_tokens bounds what a slow
// reader can leave here.
class TokenStream {
 public:
  // `wake` runs on the writer's thread, with no lock held, when there may be something to read. It
  // must be quick and may outlive Cancel() by one call.
  explicit TokenStream(absl::AnyInvocable<void()> wake) : wake_(std::move(wake)) {}

  // Writer. Nothing is written after Close.
  void Write(SampledToken token) ABSL_LOCKS_EXCLUDED(mutex_);
  void Close(FinishReason reason, absl::Status status, SequenceTimes times)
      ABSL_LOCKS_EXCLUDED(mutex_);
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  // Tokens written and not read. The scheduler pauses a sequence whose reader is far behind.
  int32_t unread() const { return unread_.load(std::memory_order_acquire); }
  void MarkStarted() { started_.store(true, std::memory_order_release); }  // it has left the queue

  // Reader.
  struct Chunk {
    std::vector<SampledToken> tokens;
    bool closed = false;
    FinishReason reason = FinishReason::kNone;
    absl::Status status;
    SequenceTimes times;  // complete when closed
  };
  // What was written since the last Read; never blocks.
  Chunk Read() ABSL_LOCKS_EXCLUDED(mutex_);
  // Cancellation is a fact: the scheduler sees it at its next step and frees the sequence.
  void Cancel() { cancelled_.store(true, std::memory_order_release); }
  bool started() const { return started_.load(std::memory_order_acquire); }

 private:
  Mutex mutex_;
  Chunk pending_ ABSL_GUARDED_BY(mutex_);
  absl::AnyInvocable<void()> wake_;  // called by the one writer only
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> started_{false};
  std::atomic<int32_t> unread_{0};
};

}  // namespace penstock
