#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "cli/loaded_model.h"
#include "cli/replicas.h"
#include "cli/serve_options.h"
#include "scheduler/request_batcher.h"

namespace penstock {

// InvalidArgument, with their names, when an input's special tokens fill the context.
absl::Status CheckRoomForText(int32_t max_context, const Tokenizer& tokenizer);

// A one-shot model, served: an executor and the dynamic batcher before it.
class OneShotModel final : public LoadedModel {
 public:
  // Borrows `metrics`.
  static absl::StatusOr<std::unique_ptr<LoadedModel>> Load(const ServingPlan& plan,
                                                           const Tokenizer& tokenizer,
                                                           const ServeOptions& options,
                                                           Metrics& metrics);
  OneShotModel(std::unique_ptr<Executor> executor, const ServeOptions& options, Metrics& metrics);

  Encoder* encoder() override { return &batcher_; }
  const ExecutorInfo& info() const override { return executor_->info(); }
  void Start() override { batcher_.Start(); }
  void Stop(absl::Time deadline) override { batcher_.Stop(deadline); }

 private:
  const std::unique_ptr<Executor> executor_;
  const StageWatch stages_;
  RequestBatcher batcher_;
};

}  // namespace penstock
