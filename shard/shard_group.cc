#include "shard/shard_group.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shard/base/cpus.h"
#include "shard/base/status_macros.h"
#include "shard/rank_threads.h"
#include "shard/step_check.h"

namespace penstock {
namespace {

class ShardGroup final : public Executor {
 public:
  ShardGroup(const ModelSpec& spec, const ShardPlan& plan, const ShardGroupOptions& options,
             bool spin, std::vector<std::unique_ptr<Shard>> shards)
      : info_(options.memory.info),
        timeout_(options.step_timeout),
        ranks_(plan, Groups(spec, plan, options, spin), std::move(shards)) {}

  const ExecutorInfo& info() const override { return info_; }
  uint64_t epoch() const override { return ranks_.epoch(); }

  void Launch(StepBatch batch) override {
    if (batch.plan_hash == 0) batch.plan_hash = HashPlan(batch);
    absl::Status sound = CheckStep(batch, info_);
    if (sound.ok() && ranks_.outstanding() >= info_.max_in_flight)
      sound = absl::FailedPreconditionError(
          absl::StrCat("step ", batch.step, ": more than ", info_.max_in_flight, " in flight"));
    if (!sound.ok()) return ranks_.Abort(sound);
    ranks_.Launch(std::make_shared<const StepBatch>(std::move(batch)));
  }

  absl::StatusOr<StepResult> Wait() override { return ranks_.Wait(timeout_); }
  void Abort(absl::Status why) override { ranks_.Abort(why); }
  absl::Status Restart() override { return ranks_.Restart(timeout_); }
  absl::Status status() const override { return ranks_.failure(); }
  PipelineStats Stats() const override { return ranks_.Stats(); }

 private:
  static GroupOptions Groups(const ModelSpec& spec, const ShardPlan& plan,
                             const ShardGroupOptions& options, bool spin) {
    GroupOptions groups = PlanGroups(spec, plan, options.memory.options);
    for (LocalCommOptions* group : {&groups.tensor, &groups.pipeline}) {
      group->timeout = options.step_timeout;
      group->spin = spin;
    }
    return groups;
  }

  const ExecutorInfo info_;
  const std::chrono::milliseconds timeout_;
  RankThreads ranks_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> LoadShardGroup(const Checkpoint& checkpoint,
                                                         const ModelSpec& spec,
                                                         const ShardPlan& plan,
                                                         const ShardGroupOptions& options,
                                                         LoadProgress* progress) {
  const int cpus = AvailableCpus(), all_ranks = plan.ranks() * options.replicas;
  CpuOptions cpu = options.cpu;
  if (cpu.threads == 0) cpu.threads = std::max(1, cpus / all_ranks);
  std::vector<int> ranks(static_cast<size_t>(plan.ranks()));
  std::iota(ranks.begin(), ranks.end(), 0);
  ASSIGN_OR_RETURN(std::vector<std::unique_ptr<Shard>> shards,
                   LoadShards(checkpoint, spec, plan, ranks, options.memory, cpu, progress));
  const bool spin = all_ranks * cpu.threads <= cpus;
  return std::make_unique<ShardGroup>(spec, plan, options, spin, std::move(shards));
}

}  // namespace penstock
