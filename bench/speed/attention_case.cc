#include <chrono>
#include <memory>

#include "bench/speed/speed_case.h"
#include "bench/support/attention_step.h"
#include "shard/backend/cpu/cpu_backend.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

constexpr int kRounds = 20;
}  // namespace

absl::StatusOr<SpeedTrial> RunAttentionCase(const ModelSpec& spec, DType dtype, int threads,
                                            const SpeedCase& what) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, MakeCpuBackend({.threads = threads}));
  AttentionStep step(what.sequences, 1, what.context);
  const DeviceBatch batch = step.batch();
  const AttentionShape shape = {.heads = spec.heads,
                                .kv_heads = spec.kv_heads,
                                .group = spec.group(),
                                .head_dim = spec.head_dim,
                                .scale = 0.125f};
  std::vector<std::unique_ptr<KvCache>> caches;
  for (int32_t i = 0; i < spec.layers; ++i) {
    ASSIGN_OR_RETURN(caches.emplace_back(),
                     backend->MakeKvCache({.blocks = step.blocks(),
                                           .block_size = AttentionStep::kBlockSize,
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
      backend->attention().Attention(q.view, *cache, batch, shape, out.view);
      bytes += static_cast<double>(cache->bytes());
    }
  }
  RETURN_IF_ERROR(backend->Sync());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return SpeedTrial{.tokens = kRounds * what.sequences / seconds.count(),
                    .bytes = bytes / seconds.count()};
}

}  // namespace penstock
