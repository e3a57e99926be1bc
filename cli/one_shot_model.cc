#include "cli/one_shot_model.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "shard/base/status_macros.h"

namespace penstock {

absl::Status CheckRoomForText(int32_t max_context, const Tokenizer& tokenizer) {
  std::vector<std::string> special;
  for (int32_t id : tokenizer.EncodeInput("", std::nullopt, 0).ids)
    special.push_back(tokenizer.Bytes(id, /*first=*/true));
  if (max_context > static_cast<int64_t>(special.size())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--max-context is ", max_context, "; with the model's special tokens (",
                   absl::StrJoin(special, ", "), ") there is no room for text"));
}

absl::StatusOr<std::unique_ptr<LoadedModel>> OneShotModel::Load(const ServingPlan& plan,
                                                                const Tokenizer& tokenizer,
                                                                const ServeOptions& options,
                                                                Metrics& metrics) {
  RETURN_IF_ERROR(CheckRoomForText(plan.memory.info.max_context, tokenizer));
  ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor,
                   LoadReplica(plan, tokenizer, options, /*replica=*/0));
  return std::make_unique<OneShotModel>(std::move(executor), options, metrics);
}

OneShotModel::OneShotModel(std::unique_ptr<Executor> executor, const ServeOptions& options,
                           Metrics& metrics)
    : executor_(std::move(executor)),
      stages_(metrics, *executor_, 0),
      batcher_(options.batcher, *executor_, metrics.AddReplica(executor_->info().stages)) {}

}  // namespace penstock
