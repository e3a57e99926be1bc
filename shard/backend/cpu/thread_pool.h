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
// a task, since the next one of the same step follows at once, and then sleep.
//
// A task is cut into pieces. Each worker has a contiguous share of them, the same one whenever a
// task has as many pieces, takes those in order, and then helps those who are behind (Blumofe and
// Leiserson's work stealing, 1999): memory is read in one stream per thread, and a worker that the
// system has put aside delays no more than the piece it holds. While all keep pace no worker
// writes what another reads, but for one word at the beginning and one at the end of a task.
// With one thread there is no team and nothing to wait for. Run() belongs to one thread at a time.
class ThreadPool {
 public:
  using Task = absl::FunctionRef<void(int64_t piece, int worker)>;

  ThreadPool(int threads, std::chrono::microseconds spin);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Calls task(piece, worker) once for every piece in [0, pieces), worker in [0, threads()) being
  // the thread it runs on; returns when all are done. `task` must not throw or call Run().
  void Run(int64_t pieces, Task task);

  // Calls task(range, worker) for a partition of [0, items) into ranges of at least `grain`; inline
  // when there would be only one.
  void ForRanges(int64_t items, int64_t grain, absl::FunctionRef<void(Range, int worker)> task);

 private:
  // A task's number, counted from 1, and how many pieces it has; in one word, so that who reads it
  // has both of the same task.
  struct Order {
    uint64_t number = 0;
    uint32_t pieces = 0;
  };
  // A worker's share of the newest task that anybody took a piece of, from it: the task's number
  // and how many pieces are left.
  struct alignas(64) Share {
    std::atomic<uint64_t> word{0};
  };

  static uint64_t Word(uint64_t number, uint32_t pieces) { return number << kPieceBits | pieces; }
  static Order OrderOf(uint64_t word) {
    return {word >> kPieceBits, static_cast<uint32_t>(word & ((uint64_t{1} << kPieceBits) - 1))};
  }

  void Work(int worker);
  // Runs pieces of the order until there are no more to take; how many it ran.
  uint32_t TakePieces(Order order, int worker);
  uint32_t TakeShare(Order order, int owner, int worker);
  // Waits until `word` is no longer `value`: spins first, then sleeps.
  void AwaitChange(const std::atomic<uint32_t>& word, uint32_t value) const;

  static constexpr int kPieceBits = 20;

  const int threads_;
  const std::chrono::microseconds spin_;
  std::vector<Share> shares_;   // [threads]
  uint64_t number_ = 0;         // Run()'s: of the last task
  uint32_t helped_before_ = 0;  // Run()'s: helped_ when no task runs

  // What Run() writes and the others wait for.
  alignas(64) std::atomic<uint32_t> published_{0};  // the lower half of the order's number
  std::atomic<uint64_t> order_{0};
  const Task* task_ = nullptr;  // constant while a piece of it is taken and not finished
  std::atomic<bool> stopping_{false};
  // What the others write: pieces they have run, of all tasks.
  alignas(64) std::atomic<uint32_t> helped_{0};
  std::vector<std::thread> workers_;
};

}  // namespace penstock
