#include <chrono>
#include <memory>

#include "bench/speed/speed_case.h"
#include "shard/backend/cpu/cpu_backend.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

constexpr int kRounds = 20;
constexpr int32_t kBlockSize = 16;

struct Ints {
  Matrix view() {
    const int64_t size = std::ssize(values);
    return {values.data(), 1, size, size, DType::kI32};
  }
  std::vector<int32_t> values;
};

// One row of each sequence, at the end of its context.
struct DecodeBatch {
  DecodeBatch(int32_t sequences, int32_t context) {
    const int32_t blocks = (context + kBlockSize - 1) / kBlockSize;
    seq_begin.values = block_begin.values = {0};
    for (int32_t s = 0; s < sequences; ++s) {
      positions.values.push_back(context - 1);
      contexts.values.push_back(context);
      seq_begin.values.push_back(s + 1);
      for (int32_t b = 0; b < blocks; ++b) table.values.push_back(b * sequences + s);
      block_begin.values.push_back(static_cast<int32_t>(std::ssize(table.values)));
    }
    batch.positions = positions.view();
    batch.seq_begin = seq_begin.view();
    batch.context_lens = contexts.view();
    batch.block_begin = block_begin.view();
    batch.blocks = table.view();
  }

  Ints positions, seq_begin, contexts, block_begin, table;
  DeviceBatch batch;
};

}  // namespace

absl::StatusOr<SpeedTrial> RunAttentionCase(const ModelSpec& spec, DType dtype, int threads,
                                            const SpeedCase& what) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, MakeCpuBackend({.threads = threads}));
  DecodeBatch step(what.sequences, what.context);
  const AttentionShape shape = {.heads = spec.heads,
                                .kv_heads = spec.kv_heads,
                                .group = spec.group(),
                                .head_dim = spec.head_dim,
                                .scale = 0.125f};
  std::vector<std::unique_ptr<KvCache>> caches;
  for (int32_t i = 0; i < spec.layers; ++i) {
    ASSIGN_OR_RETURN(
        caches.emplace_back(),
        backend->MakeKvCache({.blocks = step.table.view().cols == 0
                                            ? 1
                                            : static_cast<int32_t>(step.table.view().cols),
                              .block_size = kBlockSize,
                              .kv_heads = spec.kv_heads,
                              .head_dim = spec.head_dim,
                              .dtype = dtype}));
  }
  const int64_t width = int64_t{spec.heads} * spec.head_dim;
  ASSIGN_OR_RETURN(const OwnedMatrix q, backend->Allocate(what.sequences, width, DType::kF32));
  ASSIGN_OR_RETURN(const OwnedMatrix out, backend->Allocate(what.sequences, width, DType::kF32));
  double bytes = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < kRounds; ++round) {
    for (const auto& cache : caches) {
      backend->attention().Attention(q.view, *cache, step.batch, shape, out.view);
      bytes += static_cast<double>(cache->bytes());
    }
  }
  RETURN_IF_ERROR(backend->Sync());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return SpeedTrial{.tokens = kRounds * what.sequences / seconds.count(),
                    .bytes = bytes / seconds.count()};
}

}  // namespace penstock
