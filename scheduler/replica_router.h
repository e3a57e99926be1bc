#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "scheduler/generation_estimate.h"
#include "scheduler/generator.h"
#include "scheduler/prefix_affinity.h"
#include "shard/base/mutex.h"

namespace penstock {

struct RouterOptions {
  int32_t block_tokens = 16;  // of a KV block: only whole ones are cached
  // Tokens to be computed that a replica may have more than the least loaded one, and still get a
  // prompt whose beginning it has seen.
  int64_t max_imbalance = 4096;
  size_t remembered_prefixes = 1 << 16;
};

// Several schedulers of the same model as one Generator. A request goes to the replica with the
// least work outstanding (prompt tokens to be computed and output tokens that may come), unless
// another has seen the beginning of its prompt and is not much busier. The samples of one call stay
// together. A replica that refuses, or cannot run now, is passed over while there is another.
class ReplicaRouter final : public Generator {
 public:
  struct Replica {
    Generator* generator;
    const GenerationEstimate* estimate = nullptr;  // set: hopeless requests are refused early
  };

  // At least one; borrows them. Equal executors behind all of them.
  ReplicaRouter(const RouterOptions& options, std::vector<Replica> replicas);

  // As Generator says. When every replica refuses, ResourceExhausted if any was just too busy.
  absl::Status Submit(GenerateRequest request, std::shared_ptr<TokenStream> stream) override
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Sums. Healthy while any replica is; the latest progress among those that are, where one that
  // has nothing to do counts as making progress right now: one that can serve is enough.
  SchedulerState state() const override;

 private:
  // Replicas, the best first.
  std::vector<size_t> Rank(const GenerateRequest& request, const std::vector<uint64_t>& keys) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RouterOptions options_;
  const std::vector<Replica> replicas_;
  Mutex mutex_;
  PrefixAffinity affinity_ ABSL_GUARDED_BY(mutex_);
  std::vector<int64_t> submitted_ ABSL_GUARDED_BY(mutex_);  // [replicas]
};

}  // namespace penstock
