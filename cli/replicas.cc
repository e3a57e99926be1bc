#include "cli/replicas.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "cli/load_reporter.h"
#include "shard/base/status_macros.h"
#include "shard/remote/remote_group.h"
#include "shard/remote/worker_places.h"
#include "spdlog/spdlog.h"

namespace penstock {
namespace {

SchedulerOptions FitTo(const ExecutorInfo& info, SchedulerOptions options) {
  options.max_sequences = info.max_sequences;
  options.max_step_tokens = info.max_step_tokens;
  return options;
}

absl::StatusOr<std::unique_ptr<Executor>> LoadThreads(const ServingPlan& plan,
                                                      const MemoryPlan& memory,
                                                      const ServeOptions& options,
                                                      LoadProgress* progress) {
  ShardGroupOptions group;
  group.memory = memory;
  group.step_timeout = absl::ToChronoMilliseconds(options.step_timeout);
  group.cpu = options.model.cpu;
  group.replicas = plan.replicas;
  return LoadShardGroup(*plan.checkpoint, plan.spec, plan.shards, group, progress);
}

absl::StatusOr<RemoteWorkerOptions> WorkerOptionsOf(const WorkerSettings& settings) {
  RemoteWorkerOptions worker;
  ASSIGN_OR_RETURN(worker.credentials, ShardCredentials::Read(settings.security));
  worker.build = PENSTOCK_VERSION;
  worker.program = "/proc/self/exe";
  worker.silence = absl::ToChronoMilliseconds(settings.silence);
  worker.dial_timeout = worker.silence;
  return worker;
}

absl::StatusOr<std::unique_ptr<Executor>> LoadProcesses(const ServingPlan& plan,
                                                        const MemoryPlan& memory,
                                                        const ServeOptions& options, int replica,
                                                        LoadProgress* progress) {
  const WorkerSettings& settings = options.workers;
  RemoteGroupOptions group;
  group.memory = memory;
  group.model_path = std::filesystem::absolute(options.model.path);
  group.cpu = options.model.cpu;
  group.replicas = plan.replicas;
  group.step_timeout = absl::ToChronoMilliseconds(options.step_timeout);
  group.join_timeout = absl::ToChronoMilliseconds(settings.join_timeout);
  group.link_test = settings.link_test;
  group.start_timeout = absl::ToChronoMilliseconds(settings.start_timeout);
  ASSIGN_OR_RETURN(group.worker, WorkerOptionsOf(settings));
  group.log = [](const std::string& event) { spdlog::info("shards: {}", event); };
  group.warn = [](const std::string& event) { spdlog::warn("shards: {}", event); };
  if (settings.remote()) {
    ASSIGN_OR_RETURN(group.places, ParseWorkerPlaces(settings.places, plan.shards.ranks(),
                                                     plan.replicas, replica));
    ASSIGN_OR_RETURN(group.spares, ParseSpares(settings.spares));
  }
  return LoadRemoteGroup(*plan.checkpoint, plan.spec, plan.shards, group, progress);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> LoadReplica(const ServingPlan& plan,
                                                      const Tokenizer& tokenizer,
                                                      const ServeOptions& options, int replica) {
  MemoryPlan memory = plan.memory;
  // A head may be padded beyond the tokenizer's vocabulary; such ids are neither fed nor drawn.
  memory.info.vocab = std::min(plan.spec.vocab, tokenizer.vocab_size());
  LoadProgress progress(static_cast<size_t>(plan.shards.ranks()));
  const LoadReporter reporter(progress);
  if (options.workers.threads(plan.shards.ranks()))
    return LoadThreads(plan, memory, options, &progress);
  return LoadProcesses(plan, memory, options, replica, &progress);
}

Replicas::Replica::Replica(std::unique_ptr<Executor> executor_in, int index,
                           const ServeOptions& options, Metrics& metrics)
    : executor(std::move(executor_in)), stages(metrics, *executor, index) {
  SchedulerObserver* observer = &metrics.AddReplica(executor->info().stages);
  if (options.refuse_late) observer = &estimate.emplace(*observer);
  scheduler.emplace(FitTo(executor->info(), options.scheduler), *executor, *observer);
}

absl::StatusOr<std::unique_ptr<LoadedModel>> Replicas::Load(const ServingPlan& plan,
                                                            const Tokenizer& tokenizer,
                                                            const ServeOptions& options,
                                                            Metrics& metrics) {
  auto loaded = std::make_unique<Replicas>();
  std::vector<ReplicaRouter::Replica> routes;
  for (int i = 0; i < plan.replicas; ++i) {
    if (plan.replicas > 1) spdlog::info("replica {} of {}", i, plan.replicas);
    ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor, LoadReplica(plan, tokenizer, options, i));
    loaded->replicas_.push_back(
        std::make_unique<Replica>(std::move(executor), i, options, metrics));
    Replica& replica = *loaded->replicas_.back();
    routes.push_back({&*replica.scheduler, replica.estimate ? &*replica.estimate : nullptr});
  }
  loaded->router_.emplace(RouterOptions{.block_tokens = plan.memory.info.kv_block_size},
                          std::move(routes));
  return loaded;
}

void Replicas::Start() {
  for (const auto& replica : replicas_) replica->scheduler->Start();
}

void Replicas::Stop(absl::Time deadline) {
  for (const auto& replica : replicas_) replica->scheduler->Stop(deadline);
}

}  // namespace penstock
