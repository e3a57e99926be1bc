#include "server/call_loop.h"

#include <utility>

#include "shard/base/thread_name.h"

namespace penstock {

CallLoop::CallLoop(std::unique_ptr<grpc::ServerCompletionQueue> queue)
    : queue_(std::move(queue)), thread_([this] { Loop(); }) {}

CallLoop::~CallLoop() { Stop(); }

void CallLoop::Post(absl::AnyInvocable<void()> task) {
  MutexLock lock(&mutex_);
  if (stopped_) return;
  tasks_.push_back(std::move(task));
  if (!std::exchange(rung_, true)) Ring();
}

void CallLoop::Ring() { alarm_.Set(queue_.get(), gpr_inf_past(GPR_CLOCK_MONOTONIC), &bell_); }

void CallLoop::Enter() {
  MutexLock lock(&mutex_);
  ++inside_;
}

void CallLoop::Leave() {
  MutexLock lock(&mutex_);
  --inside_;
}

void CallLoop::Stop() {
  {
    MutexLock lock(&mutex_);
    mutex_.Await([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return inside_ == 0; });
    if (std::exchange(stopped_, true)) return;
    queue_->Shutdown();
  }
  thread_.join();
}

void CallLoop::Loop() {
  NameThread("calls");
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) static_cast<Event*>(tag)->Happen(ok);
}

// What is posted meanwhile is left for the next time, behind the events that have happened.
void CallLoop::RunPosted() {
  std::deque<absl::AnyInvocable<void()>> tasks;
  {
    MutexLock lock(&mutex_);
    tasks.swap(tasks_);
  }
  for (auto& task : tasks) task();
  MutexLock lock(&mutex_);
  rung_ = !tasks_.empty() && !stopped_;
  if (rung_) Ring();
}

}  // namespace penstock
