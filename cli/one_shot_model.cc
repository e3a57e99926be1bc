#include "cli/one_shot_model.h"

#include <utility>

#include "shard/base/status_macros.h"

namespace penstock {

absl::StatusOr<std::unique_ptr<LoadedModel>> OneShotModel::Load(const ServingPlan& plan,
                                                                const Tokenizer& tokenizer,
                                                                const ServeOptions& options,
                                                                Metrics& metrics) {
  ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor, LoadReplica(plan, tokenizer, options));
  return std::make_unique<OneShotModel>(std::move(executor), options, metrics);
}

OneShotModel::OneShotModel(std::unique_ptr<Executor> executor, const ServeOptions& options,
                           Metrics& metrics)
    : executor_(std::move(executor)),
      stages_(metrics, *executor_, 0),
      batcher_(options.batcher, *executor_, metrics.AddReplica(executor_->info().stages)) {}

}  // namespace penstock
