#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/task_pool.h"

namespace penstock {

// One RPC as an actor on a task pool: whatever happens (results, a finished write, a cancellation,
// a deadline) only wakes it, and one turn at a time does all the work, so its state needs no lock
// and Finish is called in one place. Made by std::make_shared.
class CallActor : public std::enable_shared_from_this<CallActor> {
 public:
  // Borrows `pool`, which outlives the call.
  explicit CallActor(TaskPool& pool) : pool_(pool) {}
  virtual ~CallActor() = default;
  CallActor(const CallActor&) = delete;
  CallActor& operator=(const CallActor&) = delete;

  void Wake();  // any thread

 protected:
  virtual void Turn() = 0;
  // Between these two the call keeps itself alive: from its start until gRPC is done with it.
  void Begin() { self_ = shared_from_this(); }
  void Release() { self_.reset(); }

 private:
  void Run();

  TaskPool& pool_;
  std::atomic<int> wakes_{0};  // since the last turn began; the one that leaves 0 posts
  std::shared_ptr<CallActor> self_;
};

// Infinitely far when the client set none.
absl::Time ClientDeadline(const grpc::CallbackServerContext& context);

// gRPC's clock may be this much ahead when it says that a deadline has passed.
constexpr absl::Duration kDeadlineClockError = absl::Milliseconds(20);

}  // namespace penstock
