#include "shard/backend/cpu/thread_pool.h"

#include <algorithm>

#include "shard/backend/cpu/isa.h"

namespace penstock {
namespace {

constexpr int64_t kPiecesPerThread = 4;
constexpr int64_t kMostPieces = int64_t{1} << 30;

}  // namespace

ThreadPool::ThreadPool(int threads, std::chrono::microseconds spin) : spin_(spin) {
  for (int worker = 1; worker < threads; ++worker)
    workers_.emplace_back([this, worker] { Work(worker); });
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Run(int64_t pieces, Task task) {
  if (workers_.empty() || pieces <= 1 || pieces > kMostPieces) {
    for (int64_t piece = 0; piece < pieces; ++piece) task(piece, 0);
    return;
  }
  task_ = &task;
  pieces_ = static_cast<uint32_t>(pieces);
  unfinished_.store(pieces_, std::memory_order_relaxed);
  const uint32_t generation = generation_.load(std::memory_order_relaxed) + 1;
  ticket_.store(uint64_t{generation} << 32 | pieces_, std::memory_order_release);
  generation_.store(generation, std::memory_order_release);
  generation_.notify_all();
  TakePieces(generation, 0);
  for (uint32_t left; (left = unfinished_.load(std::memory_order_acquire)) != 0;)
    AwaitChange(unfinished_, left);
}

void ThreadPool::ForRanges(int64_t items, int64_t grain, absl::FunctionRef<void(Range)> task) {
  const int64_t most = threads() == 1 ? 1 : threads() * kPiecesPerThread;
  const int64_t pieces = std::min(most, items / std::max<int64_t>(grain, 1));
  if (pieces < 2) return task(Range{0, items});
  Run(pieces, [&](int64_t piece, int) { task(Split(items, pieces, piece)); });
}

void ThreadPool::Work(int worker) {
  uint32_t seen = 0;
  while (true) {
    AwaitChange(generation_, seen);
    seen = generation_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_relaxed)) return;
    TakePieces(seen, worker);
  }
}

void ThreadPool::TakePieces(uint32_t generation, int worker) {
  uint64_t ticket = ticket_.load(std::memory_order_acquire);
  while (ticket >> 32 == generation && static_cast<uint32_t>(ticket) != 0) {
    if (!ticket_.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acq_rel,
                                       std::memory_order_acquire))
      continue;
    // While this piece is unfinished, Run() does not return and the next task cannot begin.
    (*task_)(pieces_ - static_cast<uint32_t>(ticket), worker);
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1 && worker != 0)
      unfinished_.notify_one();
    ticket = ticket_.load(std::memory_order_acquire);
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
