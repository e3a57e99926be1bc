#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "shard/api/executor.h"

namespace penstock {

// A hash of the bits of the logits a token was drawn from, by (the request's seed, the token's
// position). Requests are told apart by their seeds.
using LogitsHashes = std::map<std::pair<uint64_t, int32_t>, uint64_t>;

// Passes everything on to another executor and hashes every row of logits that is sampled. It can
// also show the scheduler less than there is: fewer steps in flight, fewer KV blocks.
class HashingExecutor : public Executor {
 public:
  // Borrows `executor`. Limits of 0 leave what there is.
  HashingExecutor(Executor& executor, int32_t max_in_flight, int32_t kv_blocks);

  const ExecutorInfo& info() const override { return info_; }
  void Launch(StepBatch batch) override;
  absl::StatusOr<StepResult> Wait() override;
  void Abort(absl::Status why) override { executor_.Abort(std::move(why)); }
  absl::Status Restart() override { return executor_.Restart(); }
  uint64_t epoch() const override { return executor_.epoch(); }
  PipelineStats Stats() const override { return executor_.Stats(); }

  const LogitsHashes& hashes() const { return hashes_; }

 private:
  using Rows = std::vector<std::pair<uint64_t, int32_t>>;

  Executor& executor_;
  ExecutorInfo info_;
  std::vector<uint64_t> slot_seeds_;  // [slots]
  std::deque<Rows> launched_;         // what the rows of each step in flight belong to
  LogitsHashes hashes_;
};

}  // namespace penstock
