#include "shard/memory_planner.h"

#include "shard/model/model.h"
#include "shard/shard.h"

namespace penstock {
namespace {

constexpr int64_t kFloat = sizeof(float);

}  // namespace

std::vector<RankMemory> MemoryPlanner::Ranks(int32_t max_context, int64_t blocks) const {
  std::vector<RankMemory> ranks;
  for (int rank = 0; rank < plan_.ranks(); ++rank)
    ranks.push_back(Measure(rank, max_context, blocks));
  return ranks;
}

int64_t MemoryPlanner::Total(int32_t max_context, int64_t blocks) const {
  int64_t total = 0;
  for (const RankMemory& rank : Ranks(max_context, blocks)) total += rank.total();
  return total;
}

MemoryPlanner MemoryPlanner::WithStepTokens(int64_t tokens) const {
  MemoryPlanOptions options = options_;
  options.max_step_tokens = static_cast<int32_t>(tokens);
  return {spec_, plan_, options, backend_};
}

int64_t MemoryPlanner::Blocks(int64_t tokens) const {
  return (tokens + options_.kv_block_size - 1) / options_.kv_block_size;
}

RankMemory MemoryPlanner::Measure(int rank, int32_t max_context, int64_t blocks) const {
  MemoryPlanOptions options = options_;
  options.max_context = max_context;
  const ModelFootprint model =
      MeasureModel(spec_, plan_, rank, options.dtype, max_context, options.max_step_tokens,
                   options.max_sequences, backend_);
  const KvCacheShape kv{.blocks = static_cast<int32_t>(blocks),
                        .block_size = options.kv_block_size,
                        .kv_heads = model.attention.kv_heads,
                        .head_dim = model.attention.head_dim,
                        .dtype = options.kv_dtype};
  RankMemory memory;
  memory.rank = rank;
  memory.device = "cpu";
  memory.weights = model.weight_bytes;
  if (blocks > 0) memory.kv = model.layers * backend_.KvCacheBytes(kv);
  int64_t floats = model.scratch_floats + int64_t{options.max_step_tokens} * spec_.hidden;
  if (plan_.last_stage(rank)) floats += options.max_sequences * HeadColumns(spec_, plan_);
  memory.scratch = (floats + InputInts(options)) * kFloat;
  memory.comm = CommBytes(rank);
  return memory;
}

int64_t MemoryPlanner::CommBytes(int rank) const {
  const GroupOptions groups = PlanGroups(spec_, plan_, options_);
  int64_t bytes = 0;
  if (plan_.tensor_rank(rank) == 0) bytes += LocalGroupBytes(plan_.tensor(), groups.tensor);
  if (plan_.stage(rank) == 0) bytes += LocalGroupBytes(plan_.pipeline(), groups.pipeline);
  return bytes;
}

}  // namespace penstock
