#pragma once

#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "server/task_queue.h"
#include "shard/base/mutex.h"

namespace penstock {

// A few threads for text work, so that neither gRPC's nor the scheduler's do it. Tasks start in the
// order they were posted. The destructor runs what was posted, tasks posted by tasks included.
//
// A step brings a short task for each of its sequences at once, and waking a thread costs more than
// such a task. So one thread takes them all, and another is woken only when the first is far
// behind or says that it is at something long.
class TaskPool final : public TaskQueue {
 public:
  // Threads are called `name`.
  explicit TaskPool(int threads, const std::string& name = "text");
  ~TaskPool() override;
  TaskPool(const TaskPool&) = delete;
  TaskPool& operator=(const TaskPool&) = delete;

  // Must not be called once the destructor has returned, so
  // whatever posts (the scheduler's streams, the calls) dies first.
  void Post(absl::AnyInvocable<void()> task) override ABSL_LOCKS_EXCLUDED(mutex_);

  int threads() const { return static_cast<int>(workers_.size()); }

  // While it lives, other tasks do not wait for the one that made it. Also harmless on threads
  // that are not the pool's.
  class LongTask {
   public:
    explicit LongTask(TaskPool& pool) : pool_(pool) { pool_.Lend(); }
    ~LongTask() { pool_.TakeBack(); }
    LongTask(const LongTask&) = delete;
    LongTask& operator=(const LongTask&) = delete;

   private:
    TaskPool& pool_;
  };

 private:
  // Sleeps by itself, so that the one that is meant wakes, and no other.
  struct Worker {
    Mutex mutex;
    bool called ABSL_GUARDED_BY(mutex) = false;
    std::thread thread;
  };

  void Loop(Worker& worker) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whom to Call() when the lock has been given up; null: nobody.
  Worker* PickHand() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void Call(Worker* worker);
  static void AwaitCall(Worker& worker);
  void Lend() ABSL_LOCKS_EXCLUDED(mutex_);
  void TakeBack() ABSL_LOCKS_EXCLUDED(mutex_);

  Mutex mutex_;
  std::deque<absl::AnyInvocable<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  std::vector<Worker*> asleep_ ABSL_GUARDED_BY(mutex_);
  int hands_ ABSL_GUARDED_BY(mutex_) = 0;  // awake, or called, and not at a long task
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Worker> workers_;
};

}  // namespace penstock
