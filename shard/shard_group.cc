#include "shard/shard_group.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shard/base/cpus.h"
#include "shard/base/status_macros.h"
#include "shard/base/thread_name.h"
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

// One rank's shard, read and packed by the calling thread.
absl::StatusOr<std::unique_ptr<Shard>> LoadShard(const Checkpoint& checkpoint,
                                                 const ModelSpec& spec, const ShardPlan& plan,
                                                 int rank, const ShardGroupOptions& options,
                                                 const CpuOptions& cpu, ReadProgress* progress) {
  ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, MakeCpuBackend(cpu));
  const MemoryPlanOptions& memory = options.memory.options;
  ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
                   LoadModel(spec, plan, rank, memory.dtype, memory.max_context, checkpoint,
                             *backend, progress));
  return Shard::Create(spec, plan, rank, options.memory, std::move(backend), std::move(model));
}

absl::Status CheckSignatures(const std::vector<std::unique_ptr<Shard>>& shards) {
  for (size_t rank = 1; rank < shards.size(); ++rank)
    if (shards[rank]->signature() != shards[0]->signature())
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", rank, " computes as ", shards[rank]->signature(), ", rank 0 as ",
                       shards[0]->signature(), "; their results would differ"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> LoadShardGroup(const Checkpoint& checkpoint,
                                                         const ModelSpec& spec,
                                                         const ShardPlan& plan,
                                                         const ShardGroupOptions& options,
                                                         LoadProgress* progress) {
  const int count = plan.ranks(), cpus = AvailableCpus(), all_ranks = count * options.replicas;
  if (progress != nullptr && std::ssize(progress->ranks) < count)
    return absl::InvalidArgumentError("LoadProgress has fewer ranks than the plan");
  CpuOptions cpu = options.cpu;
  if (cpu.threads == 0) cpu.threads = std::max(1, cpus / all_ranks);

  std::vector<absl::StatusOr<std::unique_ptr<Shard>>> loaded;
  for (int rank = 0; rank < count; ++rank) loaded.push_back(absl::UnknownError("not loaded"));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] {
      NameThread(absl::StrCat("compute ", rank));  // inherited by the threads of its backend
      const auto at = static_cast<size_t>(rank);
      ReadProgress* mine = progress == nullptr ? nullptr : &progress->ranks[at];
      loaded[at] = LoadShard(checkpoint, spec, plan, rank, options, cpu, mine);
    });
  for (std::thread& thread : threads) thread.join();

  std::vector<std::unique_ptr<Shard>> shards;
  for (auto& shard : loaded) {
    if (!shard.ok()) return shard.status();
    shards.push_back(*std::move(shard));
  }
  RETURN_IF_ERROR(CheckSignatures(shards));
  const bool spin = all_ranks * cpu.threads <= cpus;
  return std::make_unique<ShardGroup>(spec, plan, options, spin, std::move(shards));
}

}  // namespace penstock
