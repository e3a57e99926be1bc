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
// a task, since the next one of the same step follows at once, and then sleep. A task is cut into
// pieces that workers take in order as they come, so a worker that the system has put aside delays
// no more than the piece it holds. With one thread there is no team and nothing to wait for.
// Run() belongs to one thread at a time.
class ThreadPool {
 public:
  using Task = absl::FunctionRef<void(int64_t piece, int worker)>;

  ThreadPool(int threads, std::chrono::microseconds spin);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls task(piece, worker) once for every piece in [0, pieces), worker in [0, threads()) being
  // the thread it runs on; returns when all are done. `task` must not throw or call Run().
  void Run(int64_t pieces, Task task);

  // Calls task(range) for a partition of [0, items) into ranges of at least `grain`; inline when
  // there would be only one.
  void ForRanges(int64_t items, int64_t grain, absl::FunctionRef<void(Range)> task);

 private:
  void Work(int worker);
  // Takes pieces of the generation's task until there are no more.
  void TakePieces(uint32_t generation, int worker);
  // Waits until `word` is no longer `value`: spins first, then sleeps.
  void AwaitChange(const std::atomic<uint32_t>& word, uint32_t value) const;

  const std::chrono::microseconds spin_;
  // Published by ticket_; constant while a piece is taken and not finished.
  const Task* task_ = nullptr;
  uint32_t pieces_ = 0;
  alignas(64) std::atomic<uint64_t> ticket_{0};  // generation << 32 | pieces not yet taken
  alignas(64) std::atomic<uint32_t> generation_{0};
  alignas(64) std::atomic<uint32_t> unfinished_{0};
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> workers_;
};

}  // namespace penstock
