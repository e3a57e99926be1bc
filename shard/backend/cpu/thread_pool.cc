#include "shard/backend/cpu/thread_pool.h"

#include <algorithm>

#include "shard/backend/cpu/isa.h"

namespace penstock {

ThreadPool::ThreadPool(int threads, std::chrono::microseconds spin) : spin_(spin) {
  for (int worker = 1; worker < threads; ++worker)
    workers_.emplace_back([this, worker] { Work(worker); });
}

ThreadPool::~ThreadPool() {
  task_ = nullptr;
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Run(Task task) {
  if (workers_.empty()) return task(0);
  task_ = &task;
  running_.store(static_cast<uint32_t>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  task(0);
  for (uint32_t left; (left = running_.load(std::memory_order_acquire)) != 0;)
    AwaitChange(running_, left);
}

void ThreadPool::ForRanges(int64_t items, int64_t grain, absl::FunctionRef<void(Range)> task) {
  const int64_t parts = std::min<int64_t>(threads(), items / std::max<int64_t>(grain, 1));
  if (parts < 2) return task(Range{0, items});
  Run([&](int worker) {
    if (worker < parts) task(Split(items, parts, worker));
  });
}

void ThreadPool::Work(int worker) {
  uint32_t seen = 0;
  while (true) {
    AwaitChange(generation_, seen);
    seen = generation_.load(std::memory_order_acquire);
    if (task_ == nullptr) return;
    (*task_)(worker);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

void ThreadPool::AwaitChange(const std::atomic<uint32_t>& word, uint32_t value) const {
  constexpr int kSpinsPerClockRead = 32;
  if (spin_.count() > 0) {
    const auto deadline = std::chrono::steady_clock::now() + spin_;
    do {
      for (int i = 0; i < kSpinsPerClockRead; ++i) {
        if (word.load(std::memory_order_acquire) != value) return;
        RelaxProcessor();
      }
    } while (std::chrono::steady_clock::now() < deadline);
  }
  word.wait(value, std::memory_order_acquire);
}

}  // namespace penstock
