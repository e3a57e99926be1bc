#pragma once

#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "scheduler/batch_observer.h"
#include "shard/base/mutex.h"

namespace penstock {

// The way back of a one-shot request: the batcher closes it once, with a result or why there is
// none; one RPC reads it. Held by both through shared_ptr, so neither outlives what it uses.
class EncodeReply {
 public:
  struct Result {
    absl::StatusOr<std::vector<float>> output;  // [ExecutorInfo::output_width]
    EncodeTimes times;
  };

  // `wake` runs on the writer's thread, with no lock held, when the reply is closed. It must be
  // quick and may outlive Cancel() by one call.
  explicit EncodeReply(absl::AnyInvocable<void()> wake) : wake_(std::move(wake)) {}

  // Writer. Only the first Close counts.
  void Close(Result result) ABSL_LOCKS_EXCLUDED(mutex_);
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  void MarkStarted() { started_.store(true, std::memory_order_release); }  // it has left the queue

  // Reader. Takes the result, once there is one; nullopt before, and after it was taken.
  std::optional<Result> Take() ABSL_LOCKS_EXCLUDED(mutex_);
  // Cancellation is a fact: the batcher sees it when it forms a batch.
  void Cancel() { cancelled_.store(true, std::memory_order_release); }
  bool started() const { return started_.load(std::memory_order_acquire); }

 private:
  Mutex mutex_;
  std::optional<Result> result_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::AnyInvocable<void()> wake_;  // called by the one writer only
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> started_{false};
};

}  // namespace penstock
