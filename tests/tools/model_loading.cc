#include "tests/tools/model_loading.h"

#include "shard/backend/cpu/cpu_backend.h"
#include "shard/base/status_macros.h"
#include "shard/memory_plan.h"
#include "shard/model/model_spec.h"
#include "shard/model/shard_plan.h"
#include "shard/shard_group.h"

namespace penstock {

absl::StatusOr<std::unique_ptr<Executor>> LoadForCheck(const Checkpoint& checkpoint,
                                                       const CheckModelOptions& options) {
  ASSIGN_OR_RETURN(const ModelSpec spec, ParseModelSpec(checkpoint.config()));
  ShardPlanOptions shards;
  shards.tensor = options.tensor;
  shards.pipeline = options.pipeline;
  ASSIGN_OR_RETURN(const ShardPlan plan, ShardPlan::Create(spec, shards));

  MemoryPlanOptions memory;
  memory.dtype = memory.kv_dtype = options.dtype;
  memory.max_context = options.max_context;
  memory.max_sequences = options.max_sequences;
  memory.max_step_tokens = options.max_step_tokens;
  memory.kv_tokens = options.max_context * options.max_sequences;
  if (spec.encoder) memory.max_context = memory.max_step_tokens = memory.kv_tokens = 0;
  ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, MakeCpuBackend({}));
  ShardGroupOptions group;
  ASSIGN_OR_RETURN(group.memory, PlanMemory(spec, plan, memory, *backend));

  LoadProgress progress(plan.ranks());
  return LoadShardGroup(checkpoint, spec, plan, group, &progress);
}

}  // namespace penstock
