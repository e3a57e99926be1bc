#include "tests/tools/hashing_executor.h"

#include <bit>
#include <span>

#include "shard/base/status_macros.h"

namespace penstock {
namespace {

uint64_t HashRow(std::span<const float> row) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const float value : row) {
    hash = (hash ^ std::bit_cast<uint32_t>(value)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

HashingExecutor::HashingExecutor(Executor& executor, int32_t max_in_flight, int32_t kv_blocks)
    : executor_(executor),
      info_(executor.info()),
      slot_seeds_(static_cast<size_t>(info_.max_sequences)) {
  if (max_in_flight > 0) info_.max_in_flight = max_in_flight;
  if (kv_blocks > 0) info_.kv_blocks = kv_blocks;
}

void HashingExecutor::Launch(StepBatch batch) {
  for (const SlotAssignment& assignment : batch.assignments)
    slot_seeds_[static_cast<size_t>(assignment.slot)] = assignment.params.seed;
  Rows& rows = launched_.emplace_back();
  for (const SampleRow& sample : batch.samples)
    rows.emplace_back(slot_seeds_[static_cast<size_t>(sample.slot)], sample.position);
  batch.return_logits = true;
  batch.plan_hash = HashPlan(batch);
  executor_.Launch(std::move(batch));
}

absl::StatusOr<StepResult> HashingExecutor::Wait() {
  ASSIGN_OR_RETURN(StepResult result, executor_.Wait());
  const Rows rows = std::move(launched_.front());
  launched_.pop_front();
  const size_t vocab = rows.empty() ? 0 : result.logits.size() / rows.size();
  for (size_t i = 0; i < rows.size(); ++i)
    hashes_[rows[i]] = HashRow(std::span(result.logits).subspan(i * vocab, vocab));
  return result;
}

}  // namespace penstock
