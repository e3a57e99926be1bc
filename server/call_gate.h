#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/serving_context.h"
#include "shard/base/mutex.h"

namespace penstock {

// Where calls come in: shut while the server starts, open while it serves, shut for good once it
// drains. Counts the calls inside, so that a drain knows when they are gone. Thread-safe.
class CallGate {
 public:
  // Permission to be inside. Move-only; giving it up leaves.
  class Ticket {
   public:
    Ticket(CallGate* gate, const ServingContext* context) : gate_(gate), context_(context) {}
    Ticket(Ticket&& other) noexcept;
    Ticket& operator=(Ticket&& other) noexcept;
    ~Ticket() { Leave(); }
    const ServingContext& context() const { return *context_; }
    void Leave();

   private:
    CallGate* gate_;
    const ServingContext* context_;
  };

  // Unavailable, saying why, unless open.
  absl::StatusOr<Ticket> Enter() ABSL_LOCKS_EXCLUDED(mutex_);

  // `context` is borrowed until AwaitEmpty() has returned true.
  void Open(const ServingContext* context) ABSL_LOCKS_EXCLUDED(mutex_);
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

  // The first request asks for a drain, the second one to have done with it at once.
  void RequestStop() ABSL_LOCKS_EXCLUDED(mutex_);
  void AwaitStop() ABSL_LOCKS_EXCLUDED(mutex_);
  bool stop_requested() ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits until no call is inside, `grace` has passed or a second stop was requested. True: empty.
  bool AwaitEmpty(absl::Duration grace) ABSL_LOCKS_EXCLUDED(mutex_);
  int inside() ABSL_LOCKS_EXCLUDED(mutex_);

  enum class State { kStarting, kServing, kDraining };
  State state() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Leave() ABSL_LOCKS_EXCLUDED(mutex_);

  Mutex mutex_;
  const ServingContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;  // null: shut
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  int inside_ ABSL_GUARDED_BY(mutex_) = 0;
  int stops_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace penstock
