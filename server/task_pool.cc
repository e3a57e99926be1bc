#include "server/task_pool.h"

#include <utility>

#include "shard/base/thread_name.h"

namespace penstock {
namespace {

constexpr int kFarBehind = 64;  // tasks that wait for each thread

}  // namespace

TaskPool::TaskPool(int threads, const std::string& name) : workers_(static_cast<size_t>(threads)) {
  {
    MutexLock lock(&mutex_);
    hands_ = threads;
  }
  for (Worker& worker : workers_)
    worker.thread = std::thread([this, &worker, name] {
      NameThread(name);
      Loop(worker);
    });
}

TaskPool::~TaskPool() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    hands_ += static_cast<int>(asleep_.size());
    for (Worker* worker : asleep_) Call(worker);
    asleep_.clear();
  }
  for (Worker& worker : workers_) worker.thread.join();
}

void TaskPool::Post(absl::AnyInvocable<void()> task) {
  Worker* hand = nullptr;
  {
    MutexLock lock(&mutex_);
    tasks_.push_back(std::move(task));
    hand = PickHand();
  }
  Call(hand);
}

TaskPool::Worker* TaskPool::PickHand() {
  if (asleep_.empty() || tasks_.empty()) return nullptr;
  if (hands_ > 0 && std::ssize(tasks_) <= int64_t{hands_} * kFarBehind) return nullptr;
  Worker* worker = asleep_.back();
  asleep_.pop_back();
  ++hands_;
  return worker;
}

void TaskPool::Call(Worker* worker) {
  if (worker == nullptr) return;
  MutexLock lock(&worker->mutex);
  worker->called = true;
}

void TaskPool::AwaitCall(Worker& worker) {
  MutexLock lock(&worker.mutex);
  worker.mutex.Await([&worker] {
    worker.mutex.AssertHeld();
    return worker.called;
  });
  worker.called = false;
}

void TaskPool::Lend() {
  Worker* hand = nullptr;
  {
    MutexLock lock(&mutex_);
    --hands_;
    hand = PickHand();
  }
  Call(hand);
}

void TaskPool::TakeBack() {
  MutexLock lock(&mutex_);
  ++hands_;
}

void TaskPool::Loop(Worker& worker) {
  while (true) {
    absl::AnyInvocable<void()> task;
    {
      MutexLock lock(&mutex_);
      if (!tasks_.empty()) {
        task = std::move(tasks_.front());
        tasks_.pop_front();
      } else if (stopping_) {
        return;
      } else {
        --hands_;
        asleep_.push_back(&worker);
      }
    }
    if (task) {
      task();
    } else {
      AwaitCall(worker);
    }
  }
}

}  // namespace penstock
