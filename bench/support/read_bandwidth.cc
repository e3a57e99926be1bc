#include "bench/support/read_bandwidth.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "shard/backend/cpu/memory.h"
#include "shard/backend/cpu/thread_pool.h"

namespace penstock {
namespace {

constexpr int64_t kBytes = int64_t{256} << 20;

// Of four lines each, so that no addition waits for another.
uint64_t ReadLines(const uint64_t* words, Range lines) {
  uint64_t sum[32] = {};
  for (int64_t line = lines.begin; line + 4 <= lines.end; line += 4)
    for (int i = 0; i < 32; ++i) sum[i] ^= words[line * 8 + i];
  for (int i = 1; i < 32; ++i) sum[0] ^= sum[i];
  return sum[0];
}

}  // namespace

double MeasureReadBandwidth(int threads, int runs) {
  const auto memory = AllocateZeroed(kBytes);
  if (!memory.ok()) return 0;
  const auto* words = static_cast<const uint64_t*>(memory->get());
  ThreadPool pool(threads, std::chrono::microseconds(30));
  std::vector<uint64_t> sums(static_cast<size_t>(threads) * 8);
  double best = 1e9;
  for (int run = 0; run < runs; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    pool.Run(threads, [&](int64_t piece, int worker) {
      sums[static_cast<size_t>(worker) * 8] ^= ReadLines(words, Split(kBytes / 64, threads, piece));
    });
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    best = std::min(best, elapsed.count());
  }
  volatile uint64_t sink = sums[0];
  static_cast<void>(sink);
  return static_cast<double>(kBytes) / best;
}

}  // namespace penstock
