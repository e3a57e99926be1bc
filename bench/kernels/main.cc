// Speed of the CPU backend's matrix products, beside the memory bandwidth measured in the same run.
//
//   bench_kernels [isa [compute]]
//
// Weights are cold: more of them than the caches hold are used in turn. M = 1 is bound by memory
// (GB/s of weights and their share of the bandwidth), larger M by arithmetic (GFLOP/s). Each figure
// is the best of several runs. Attention is one decode step of sequences of equal length.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench/support/attention_step.h"
#include "shard/backend/cpu/cpu_backend.h"
#include "shard/backend/cpu/machine_limits.h"
#include "shard/base/cpus.h"

namespace penstock {
namespace {

constexpr int64_t kColdBytes = int64_t{256} << 20;

template <typename Function>
double BestSeconds(int runs, Function function) {
  double best = 1e9;
  for (int i = 0; i < runs; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    function();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    best = std::min(best, elapsed.count());
  }
  return best;
}

struct Shape {
  int64_t outputs, inputs;
};

void BenchProduct(Backend& backend, const Shape& shape, DType dtype, double bandwidth) {
  std::vector<uint16_t> zeros(static_cast<size_t>(shape.outputs * shape.inputs) * 2, 0x0101);
  const Matrix host = {zeros.data(), shape.outputs, shape.inputs, shape.inputs, dtype};
  const int64_t bytes = backend.WeightBytes(shape.outputs, shape.inputs, dtype);
  std::vector<std::unique_ptr<Weight>> weights;
  for (int64_t taken = 0; taken < kColdBytes; taken += bytes)
    weights.push_back(*backend.MakeWeight(host));
  std::printf("  %5ld x %-5ld %-4s", shape.outputs, shape.inputs, Name(dtype));
  for (int64_t rows : {1, 8, 64, 256}) {
    OwnedMatrix x = *backend.Allocate(rows, shape.inputs, DType::kF32);
    OwnedMatrix out = *backend.Allocate(rows, shape.outputs, DType::kF32);
    const size_t used = rows == 1 ? weights.size() : std::min<size_t>(weights.size(), 24);
    const double seconds = BestSeconds(rows == 1 ? 7 : 5, [&] {
      for (size_t i = 0; i < used; ++i) backend.dense().MatMul(x.view, *weights[i], {}, out.view);
    });
    const double each = seconds / static_cast<double>(used);
    if (rows == 1) {
      const double rate = static_cast<double>(bytes) / each / 1e9;
      std::printf("  M=1 %5.1f GB/s (%3.0f %%)", rate, 100 * rate / bandwidth);
    } else {
      const double flops = 2.0 * static_cast<double>(rows * shape.outputs * shape.inputs);
      std::printf("  M=%ld %4.0f", rows, flops / each / 1e9);
    }
  }
  std::printf(" GFLOP/s\n");
  std::fflush(stdout);
}

// `rows` tokens each of `seqs` sequences, of which `context` are then in the cache.
void BenchAttention(Backend& backend, int32_t seqs, int32_t rows, int32_t context) {
  const AttentionShape shape = {
      .heads = 9, .kv_heads = 3, .head_begin = 0, .group = 3, .head_dim = 64, .scale = 0.125f};
  AttentionStep step(seqs, rows, context);
  const KvCacheShape cache_shape = {.blocks = step.blocks(), .kv_heads = 3, .head_dim = 64};
  auto cache = *backend.MakeKvCache(cache_shape);
  const DeviceBatch batch = step.batch();
  OwnedMatrix q = *backend.Allocate(step.tokens(), 9 * 64, DType::kF32);
  OwnedMatrix out = *backend.Allocate(step.tokens(), 9 * 64, DType::kF32);
  constexpr int kRepeats = 20;
  const double seconds = BestSeconds(7, [&] {
    for (int i = 0; i < kRepeats; ++i)
      backend.attention().Attention(q.view, *cache, batch, shape, out.view);
  });
  const double each = seconds / kRepeats;
  const double kv_bytes = static_cast<double>(backend.KvCacheBytes(cache_shape));
  std::printf("  %2d sequences x %3d rows, context %4d: %8.1f us, %5.1f GB/s, %4.0f GFLOP/s\n",
              seqs, rows, context, each * 1e6, kv_bytes / each / 1e9,
              step.keys_seen() * 4 * 9 * 64 / each / 1e9);
}

int Main(int argc, char** argv) {
  const std::string isa = argc > 1 ? argv[1] : "auto", compute = argc > 2 ? argv[2] : "auto";
  const int cpus = AvailableCpus();
  for (int threads : {1, cpus}) {
    auto backend = MakeCpuBackend({.threads = threads, .isa = isa, .compute = compute});
    if (!backend.ok()) {
      std::fprintf(stderr, "%s\n", backend.status().ToString().c_str());
      return 1;
    }
    const double bandwidth = MeasureReadBandwidth(threads, 15) / 1e9;
    std::printf("%s, isa %s, %d thread(s), memory %.1f GB/s\n", (*backend)->signature().c_str(),
                isa.c_str(), threads, bandwidth);
    for (const Shape& shape : {Shape{576, 576}, Shape{1536, 576}, Shape{2048, 2048}})
      for (DType dtype : {DType::kF16, DType::kF32, DType::kBF16})
        BenchProduct(**backend, shape, dtype, bandwidth);
    BenchAttention(**backend, 1, 1, 512);
    BenchAttention(**backend, 16, 1, 512);
    BenchAttention(**backend, 1, 1, 4096);
    BenchAttention(**backend, 1, 256, 512);
    if (cpus == 1) break;
  }
  return 0;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) { return penstock::Main(argc, argv); }
