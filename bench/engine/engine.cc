#include "bench/engine/engine.h"

#include "shard/backend/cpu/cpu_backend.h"
#include "shard/base/status_macros.h"
#include "shard/memory_plan.h"

namespace penstock {

absl::StatusOr<std::unique_ptr<Executor>> RanksAsThreads(const Checkpoint& checkpoint,
                                                         const ModelSpec& spec,
                                                         const ShardPlan& plan,
                                                         const ShardGroupOptions& options) {
  return LoadShardGroup(checkpoint, spec, plan, options, nullptr);
}

absl::StatusOr<Engine> LoadEngine(const Checkpoint& checkpoint, const EngineOptions& options) {
  Engine engine;
  ASSIGN_OR_RETURN(engine.spec, ParseModelSpec(checkpoint.config()));
  ShardPlanOptions cut;
  cut.tensor = options.tensor;
  cut.pipeline = options.pipeline;
  cut.layers = options.layers;
  ASSIGN_OR_RETURN(engine.plan, ShardPlan::Create(engine.spec, cut));

  MemoryPlanOptions memory;
  memory.dtype = memory.kv_dtype = options.dtype;
  memory.max_context = options.max_context;
  memory.max_sequences = options.max_sequences;
  memory.max_step_tokens = options.max_step_tokens;
  memory.kv_tokens = options.kv_tokens;
  ShardGroupOptions group;
  group.cpu.threads = options.threads;
  group.cpu.compute = options.compute;
  ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, MakeCpuBackend(group.cpu));
  ASSIGN_OR_RETURN(group.memory, PlanMemory(engine.spec, engine.plan, memory, *backend));
  for (const RankMemory& rank : group.memory.ranks) {
    engine.weight_bytes += rank.weights;
    engine.kv_bytes += rank.kv;
  }
  engine.planned_bytes = group.memory.total();
  ASSIGN_OR_RETURN(engine.executor, options.make(checkpoint, engine.spec, engine.plan, group));
  return engine;
}

}  // namespace penstock
