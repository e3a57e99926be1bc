#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/task_queue.h"

namespace penstock {

// One RPC as an actor on a task queue: whatever happens (results, a finished write, a cancellation,
// a deadline) only wakes it, and one turn at a time does all the work, so its state needs no lock
// and Finish is called in one place. Made by std::make_shared.
class CallActor : public std::enable_shared_from_this<CallActor> {
 public:
  // Borrows `queue`, which outlives the call: turns are done there.
  explicit CallActor(TaskQueue& queue) : queue_(queue) {}
  virtual ~CallActor() = default;
  CallActor(const CallActor&) = delete;
  CallActor& operator=(const CallActor&) = delete;

  void Wake();  // any thread

 protected:
  virtual void Turn() = 0;
  // Of a request that is parsed and encoded by the thread that brings it, since that takes no
  // longer than waking another.
  static constexpr size_t kShortRequest = 4096;  // bytes
  // Between these two the call keeps itself alive: from its start until gRPC is done with it. The
  // first turn is done at once if the request is short, else by `pool`.
  void Begin(size_t request_bytes, TaskQueue& pool);
  void Release() { self_.reset(); }

 private:
  void Run();

  std::atomic<int> wakes_{0};  // since the last turn began; the one that leaves 0 posts
  TaskQueue& queue_;
  std::shared_ptr<CallActor> self_;
};

// gRPC's clock may be this much ahead when it says that a deadline has passed.
constexpr absl::Duration kDeadlineClockError = absl::Milliseconds(20);

}  // namespace penstock
