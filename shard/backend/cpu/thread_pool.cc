#include "shard/backend/cpu/thread_pool.h"

#include <algorithm>

#include "shard/base/relax.h"

namespace penstock {
namespace {

constexpr int64_t kPiecesPerThread = 4;

}  // namespace

ThreadPool::ThreadPool(int threads, std::chrono::microseconds spin)
    : threads_(std::max(threads, 1)), spin_(spin), shares_(static_cast<size_t>(threads_)) {
  for (int worker = 1; worker < threads_; ++worker)
    workers_.emplace_back([this, worker] { Work(worker); });
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_relaxed);
  published_.fetch_add(1, std::memory_order_release);
  published_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Run(int64_t pieces, Task task) {
  constexpr int64_t kMostPieces = (int64_t{1} << kPieceBits) - 1;
  if (workers_.empty() || pieces <= 1 || pieces > kMostPieces) {
    for (int64_t piece = 0; piece < pieces; ++piece) task(piece, 0);
    return;
  }
  const Order order = {++number_, static_cast<uint32_t>(pieces)};
  task_ = &task;
  order_.store(Word(order.number, order.pieces), std::memory_order_release);
  // Sequentially consistent: it must not pass notify_all()'s look for those who sleep.
  published_.store(static_cast<uint32_t>(order.number), std::memory_order_seq_cst);
  published_.notify_all();
  const uint32_t all_helped = helped_before_ + order.pieces - TakePieces(order, 0);
  for (uint32_t helped; (helped = helped_.load(std::memory_order_acquire)) != all_helped;)
    AwaitChange(helped_, helped);
  helped_before_ = all_helped;
}

void ThreadPool::ForRanges(int64_t items, int64_t grain,
                           absl::FunctionRef<void(Range, int worker)> task) {
  const int64_t most = threads() == 1 ? 1 : threads() * kPiecesPerThread;
  const int64_t pieces = std::min(most, items / std::max<int64_t>(grain, 1));
  if (pieces < 2) return task(Range{0, items}, 0);
  Run(pieces, [&](int64_t piece, int worker) { task(Split(items, pieces, piece), worker); });
}

void ThreadPool::Work(int worker) {
  uint32_t seen = 0;
  while (true) {
    AwaitChange(published_, seen);
    seen = published_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_relaxed)) return;
    // Maybe of a newer task than `seen`: then this is run now, and found to be over next time.
    const uint32_t taken = TakePieces(OrderOf(order_.load(std::memory_order_acquire)), worker);
    if (taken == 0) continue;
    helped_.fetch_add(taken, std::memory_order_acq_rel);
    helped_.notify_one();
  }
}

uint32_t ThreadPool::TakePieces(Order order, int worker) {
  uint32_t taken = 0;
  for (int i = 0; i < threads_; ++i) taken += TakeShare(order, (worker + i) % threads_, worker);
  return taken;
}

// A share that is still of an earlier task has not been touched, and is full. Pieces of a task are
// taken through the shares alone, so once it is over each share that had some is of this task or a
// later one: who comes too late finds nothing. And while a piece is taken and not counted in
// helped_, or Run() is not behind it itself, Run() does not return and the next task cannot begin.
uint32_t ThreadPool::TakeShare(Order order, int owner, int worker) {
  const Range mine = Split(order.pieces, threads_, owner);
  if (mine.size() == 0) return 0;
  std::atomic<uint64_t>& share = shares_[static_cast<size_t>(owner)].word;
  uint32_t taken = 0;
  uint64_t word = share.load(std::memory_order_acquire);
  while (true) {
    Order left = OrderOf(word);
    if (left.number < order.number) left = {order.number, static_cast<uint32_t>(mine.size())};
    if (left.number > order.number || left.pieces == 0) return taken;
    if (!share.compare_exchange_weak(word, Word(order.number, left.pieces - 1),
                                     std::memory_order_acq_rel, std::memory_order_acquire))
      continue;
    (*task_)(mine.end - left.pieces, worker);
    ++taken;
    word = share.load(std::memory_order_acquire);
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
