#include "bench/engine/engine.h"

#include <utility>

#include "shard/backend/cpu/cpu_backend.h"
#include "shard/base/status_macros.h"
#include "shard/memory_plan.h"
#include "shard/shard_group.h"

namespace penstock {

absl::StatusOr<Engine> LoadEngine(const Checkpoint& checkpoint, int pipeline,
                                  std::vector<int> layers) {
  Engine engine;
  ASSIGN_OR_RETURN(engine.spec, ParseModelSpec(checkpoint.config()));
  ShardPlanOptions cut;
  cut.pipeline = pipeline;
  cut.layers = std::move(layers);
  ASSIGN_OR_RETURN(engine.plan, ShardPlan::Create(engine.spec, cut));

  MemoryPlanOptions memory;
  memory.max_context = 2560;
  memory.max_sequences = 32;
  memory.max_step_tokens = 512;
  memory.kv_tokens = 32 * 384;
  ShardGroupOptions group;
  group.cpu.threads = 1;
  ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, MakeCpuBackend(group.cpu));
  ASSIGN_OR_RETURN(group.memory, PlanMemory(engine.spec, engine.plan, memory, *backend));
  ASSIGN_OR_RETURN(engine.executor,
                   LoadShardGroup(checkpoint, engine.spec, engine.plan, group, nullptr));
  return engine;
}

}  // namespace penstock
