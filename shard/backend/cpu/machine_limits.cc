#include "shard/backend/cpu/machine_limits.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "shard/backend/cpu/limit_loops.h"
#include "shard/backend/cpu/memory.h"
#include "shard/backend/cpu/thread_pool.h"
#include "shard/base/relax.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kBytes = int64_t{256} << 20;
constexpr int64_t kRounds = 1 << 20;  // of a loop: some milliseconds
constexpr int kLoopRuns = 9;
constexpr std::chrono::microseconds kSpin{30};

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Of four lines each, so that no addition waits for another.
uint64_t ReadLines(const uint64_t* words, Range lines) {
  uint64_t sum[32] = {};
  for (int64_t line = lines.begin; line + 4 <= lines.end; line += 4)
    for (int i = 0; i < 32; ++i) sum[i] ^= words[line * 8 + i];
  for (int i = 1; i < 32; ++i) sum[0] ^= sum[i];
  return sum[0];
}

// The best rate of all threads together.
double MeasureLoop(int threads, double (*loop)(int64_t rounds)) {
  ThreadPool pool(threads, kSpin);
  double best = 0;
  for (int run = 0; run < kLoopRuns; ++run) {
    std::vector<double> operations(static_cast<size_t>(threads));
    const auto begin = Clock::now();
    pool.Run(threads,
             [&](int64_t piece, int) { operations[static_cast<size_t>(piece)] = loop(kRounds); });
    const double seconds = SecondsSince(begin);
    double all = 0;
    for (const double count : operations) all += count;
    best = std::max(best, all / seconds);
  }
  return best;
}

// Half of the way there and back of a counter between two threads.
double MeasureHandover() {
  constexpr uint32_t kTurns = 20000;
  std::atomic<uint32_t> turn{0};
  std::thread other([&] {
    for (uint32_t i = 1; i < 2 * kTurns; i += 2) {
      while (turn.load(std::memory_order_acquire) != i) RelaxProcessor();
      turn.store(i + 1, std::memory_order_release);
    }
  });
  const auto begin = Clock::now();
  for (uint32_t i = 0; i < 2 * kTurns; i += 2) {
    while (turn.load(std::memory_order_acquire) != i) RelaxProcessor();
    turn.store(i + 1, std::memory_order_release);
  }
  other.join();
  return SecondsSince(begin) / (2 * kTurns);
}

}  // namespace

double MeasureReadBandwidth(int threads, int runs) {
  const auto memory = AllocateZeroed(kBytes);
  if (!memory.ok()) return 0;
  const auto* words = static_cast<const uint64_t*>(memory->get());
  ThreadPool pool(threads, kSpin);
  std::vector<uint64_t> sums(static_cast<size_t>(threads) * 8);
  double best = 1e9;
  for (int run = 0; run < runs; ++run) {
    const auto begin = Clock::now();
    pool.Run(threads, [&](int64_t piece, int worker) {
      sums[static_cast<size_t>(worker) * 8] ^= ReadLines(words, Split(kBytes / 64, threads, piece));
    });
    best = std::min(best, SecondsSince(begin));
  }
  volatile uint64_t sink = sums[0];
  static_cast<void>(sink);
  return static_cast<double>(kBytes) / best;
}

MachineLimits MeasureLimits(int threads) {
  constexpr int kReads = 9;
  return {.threads = threads,
          .read_bandwidth = MeasureReadBandwidth(threads, kReads),
          .fp32 = MeasureLoop(threads, RunFp32Loop),
          .bf16 = MeasureLoop(threads, RunBf16Loop),
          .int8 = MeasureLoop(threads, RunInt8Loop),
          .handover = threads > 1 ? MeasureHandover() : 0};
}

}  // namespace penstock
