#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/loaded_model.h"
#include "cli/serve_options.h"
#include "scheduler/generation_estimate.h"
#include "scheduler/replica_router.h"
#include "scheduler/scheduler.h"
#include "server/metrics.h"
#include "server/served_model.h"
#include "server/serving_plan.h"

namespace penstock {

// The ranks of one replica of `plan`, loaded, with progress in the log.
absl::StatusOr<std::unique_ptr<Executor>> LoadReplica(const ServingPlan& plan,
                                                      const Tokenizer& tokenizer,
                                                      const ServeOptions& options, int replica);

// Shows an executor's stages in the metrics for as long as both live.
class StageWatch {
 public:
  StageWatch(Metrics& metrics, const Executor& executor, int replica)
      : metrics_(metrics), replica_(replica) {
    metrics_.WatchStages(&executor, replica_);
  }
  ~StageWatch() { metrics_.WatchStages(nullptr, replica_); }
  StageWatch(const StageWatch&) = delete;
  StageWatch& operator=(const StageWatch&) = delete;

 private:
  Metrics& metrics_;
  const int replica_;
};

// A generative model, served: `plan.replicas` executors, each with its scheduler, and the router
// before them.
class Replicas final : public LoadedModel {
 public:
  // Loads one after the other; each reads in parallel. Borrows `metrics`.
  static absl::StatusOr<std::unique_ptr<LoadedModel>> Load(const ServingPlan& plan,
                                                           const Tokenizer& tokenizer,
                                                           const ServeOptions& options,
                                                           Metrics& metrics);

  Generator* generator() override { return &*router_; }
  const ExecutorInfo& info() const override { return replicas_.front()->executor->info(); }
  void Start() override;
  void Stop(absl::Time deadline) override;

 private:
  struct Replica {
    Replica(std::unique_ptr<Executor> executor_in, int index, const ServeOptions& options,
            Metrics& metrics);

    const std::unique_ptr<Executor> executor;
    const StageWatch stages;
    std::optional<GenerationEstimate> estimate;  // when late requests are refused
    std::optional<Scheduler> scheduler;
  };

  std::vector<std::unique_ptr<Replica>> replicas_;
  std::optional<ReplicaRouter> router_;
};

}  // namespace penstock
