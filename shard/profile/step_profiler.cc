#include "shard/profile/step_profiler.h"

#include <chrono>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shard/base/status_macros.h"
#include "shard/comm/local_comm.h"
#include "shard/memory_plan.h"
#include "shard/model/model.h"
#include "shard/profile/profiled_backend.h"
#include "shard/step_check.h"

namespace penstock {

double StepProfile::Seconds(OperationKind kind) const {
  double sum = 0;
  for (const OperationCost& each : operations) sum += each.kind == kind ? each.seconds : 0;
  return sum;
}

double StepProfile::OutsideSeconds() const {
  double sum = seconds;
  for (const OperationCost& each : operations) sum -= each.seconds;
  return sum;
}

absl::StatusOr<std::unique_ptr<StepProfiler>> StepProfiler::Load(
    const Checkpoint& checkpoint, const StepProfilerOptions& options) {
  ASSIGN_OR_RETURN(ModelSpec parsed, ParseModelSpec(checkpoint.config()));
  std::unique_ptr<StepProfiler> profiler(new StepProfiler(std::move(parsed)));
  const ModelSpec& spec = profiler->spec_;
  ASSIGN_OR_RETURN(const ShardPlan plan, ShardPlan::Create(spec, {}));
  ASSIGN_OR_RETURN(std::unique_ptr<Backend> real, MakeCpuBackend(options.cpu));
  MemoryPlanOptions wanted;
  wanted.dtype = wanted.kv_dtype = options.dtype;
  wanted.max_context = options.max_context;
  wanted.max_sequences = options.max_sequences;
  wanted.max_step_tokens = options.max_step_tokens;
  if (!spec.encoder)
    wanted.kv_tokens = options.max_sequences * (options.max_context + wanted.kv_block_size);
  ASSIGN_OR_RETURN(const MemoryPlan memory, PlanMemory(spec, plan, wanted, *real));
  profiler->info_ = memory.info;
  std::unique_ptr<Backend> backend = MakeProfiledBackend(std::move(real), &profiler->log_);
  ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
                   LoadModel(spec, plan, 0, options.dtype, memory.options.max_context, checkpoint,
                             *backend, nullptr));
  ASSIGN_OR_RETURN(profiler->shard_,
                   Shard::Create(spec, plan, 0, memory, std::move(backend), std::move(model)));
  profiler->shard_->Connect(std::move(MakeLocalGroup("tensor", 1, {}).front()),
                            std::move(MakeLocalGroup("pipeline", 1, {}).front()), 0);
  return profiler;
}

absl::StatusOr<StepProfile> StepProfiler::Decode(int32_t sequences, int32_t context, int steps) {
  if (spec_.encoder) return absl::InvalidArgumentError("an encoder does not decode");
  return Run(sequences, context, 1, steps);
}

absl::StatusOr<StepProfile> StepProfiler::Prefill(int32_t tokens, int steps) {
  return Run(1, tokens, tokens, steps);
}

absl::StatusOr<StepProfile> StepProfiler::Run(int32_t sequences, int32_t context, int32_t tokens,
                                              int steps) {
  StepProfile profile{.steps = steps};
  for (int i = -1; i < steps; ++i) {
    StepBatch step = MakeStep(sequences, context, tokens);
    step.plan_hash = HashPlan(step);
    RETURN_IF_ERROR(CheckStep(step, info_));
    if (i == 0) log_.Clear();
    const auto begin = std::chrono::steady_clock::now();
    RETURN_IF_ERROR(shard_->Run(step).status());
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    if (i >= 0) profile.seconds += seconds.count();
  }
  profile.operations = log_.operations();
  return profile;
}

StepBatch StepProfiler::MakeStep(int32_t sequences, int32_t context, int32_t tokens) {
  StepBatch step;
  step.step = next_step_++;
  step.kind = spec_.encoder ? StepKind::kEncode : StepKind::kGenerate;
  step.seq_begin = {0};
  step.block_begin = {0};
  const int32_t block_size = info_.kv_block_size;
  for (int32_t s = 0; s < sequences; ++s) {
    const int32_t blocks = spec_.encoder ? 0 : (context + block_size - 1) / block_size;
    for (int32_t position = context - tokens; position < context; ++position) {
      step.tokens.push_back((7919 * position + 31 * s) % info_.vocab);
      step.positions.push_back(position);
      if (!spec_.encoder) step.slots.push_back(s * blocks * block_size + position);
    }
    for (int32_t b = 0; b < blocks; ++b) step.blocks.push_back(s * blocks + b);
    step.seq_begin.push_back(static_cast<int32_t>(std::ssize(step.tokens)));
    step.context_lens.push_back(context);
    if (spec_.encoder) continue;
    step.block_begin.push_back(static_cast<int32_t>(std::ssize(step.blocks)));
    step.samples.push_back({.row = step.seq_begin.back() - 1, .slot = s, .position = context});
    SlotAssignment& assignment = step.assignments.emplace_back();
    assignment.slot = s;
    assignment.params.temperature = 0;
  }
  if (spec_.encoder) step.block_begin.clear();
  return step;
}

}  // namespace penstock
