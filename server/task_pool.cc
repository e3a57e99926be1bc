#include "server/task_pool.h"

#include <utility>

namespace penstock {

TaskPool::TaskPool(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
}

TaskPool::~TaskPool() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void TaskPool::Post(absl::AnyInvocable<void()> task) {
  MutexLock lock(&mutex_);
  tasks_.push_back(std::move(task));
}

void TaskPool::Loop() {
  while (true) {
    absl::AnyInvocable<void()> task;
    {
      MutexLock lock(&mutex_);
      mutex_.Await([this] {
        mutex_.AssertHeld();
        return stopping_ || !tasks_.empty();
      });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace penstock
