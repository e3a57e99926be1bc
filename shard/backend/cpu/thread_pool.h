#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "shard/base/range.h"

namespace penstock {

// The part'th of `parts` nearly equal pieces of [0, items).
inline Range Split(int64_t items, int64_t parts, int64_t part) {
  return {items * part / parts, items * (part + 1) / parts};
}

// A team of threads for one rank. The calling thread is worker 0; the others spin for `spin` after
// a task, since the next one of the same step follows at once, and then sleep. With one thread
// there is no team and nothing to wait for. Run() belongs to one thread at a time.
class ThreadPool {
 public:
  ThreadPool(int threads, std::chrono::microseconds spin);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls task(worker) for every worker in [0, threads()) at once; returns when all have returned.
  // `task` must not throw or call Run().
  void Run(absl::FunctionRef<void(int worker)> task);

  // Calls task(begin, end) for a partition of [0, items); inline when there are fewer than two
  // pieces of at least `grain` items.
  void ForRanges(int64_t items, int64_t grain, absl::FunctionRef<void(Range)> task);

 private:
  using Task = absl::FunctionRef<void(int worker)>;

  void Work(int worker);
  // Waits until `word` is no longer `value`: spins first, then sleeps.
  void AwaitChange(const std::atomic<uint32_t>& word, uint32_t value) const;

  const std::chrono::microseconds spin_;
  const Task* task_ = nullptr;  // null ends the workers; published by generation_
  alignas(64) std::atomic<uint32_t> generation_{0};
  alignas(64) std::atomic<uint32_t> running_{0};
  std::vector<std::thread> workers_;
};

}  // namespace penstock
