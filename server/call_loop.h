#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <deque>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "server/task_queue.h"
#include "shard/base/mutex.h"

namespace penstock {

// A thread that serves one of gRPC's completion queues and, between two events, what was posted.
//
// A step brings a message for each of its sequences at once. Their writes end on the thread that
// began them, which is awake already; with gRPC's callbacks each end would wake another thread,
// which costs more than the message.
class CallLoop final : public TaskQueue {
 public:
  // What a tag of the queue points to.
  class Event {
   public:
    virtual ~Event() = default;
    virtual void Happen(bool ok) = 0;  // on the loop's thread; must be quick
  };

  explicit CallLoop(std::unique_ptr<grpc::ServerCompletionQueue> queue);
  ~CallLoop() override;  // Stop()

  grpc::ServerCompletionQueue& queue() { return *queue_; }

  // In the order of posting. Once the loop is stopped, nothing happens to what is posted.
  void Post(absl::AnyInvocable<void()> task) override ABSL_LOCKS_EXCLUDED(mutex_);

  // Around the life of whatever may still put an operation on the queue.
  void Enter() ABSL_LOCKS_EXCLUDED(mutex_);
  void Leave() ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits until all have left, lets the queue run empty and joins the thread; idempotent. The
  // queue's server must have been shut down before, which ends every call.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Of the alarm that brings the loop to what was posted.
  struct Bell final : Event {
    explicit Bell(CallLoop& loop) : loop_(loop) {}
    void Happen(bool) override { loop_.RunPosted(); }
    CallLoop& loop_;
  };

  void Loop();
  void Ring() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunPosted() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  Bell bell_{*this};
  Mutex mutex_;
  grpc::Alarm alarm_ ABSL_GUARDED_BY(mutex_);
  std::deque<absl::AnyInvocable<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool rung_ ABSL_GUARDED_BY(mutex_) = false;  // the loop will come, or is here
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  int inside_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

}  // namespace penstock
