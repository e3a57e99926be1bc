#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/api/executor.h"
#include "shard/backend/backend.h"
#include "shard/comm/communicator.h"
#include "shard/memory_plan.h"
#include "shard/model/model.h"
#include "shard/model/model_spec.h"
#include "shard/model/shard_plan.h"

namespace penstock {

// One rank: its layers, its KV cache, its buffers. Allocates in Create(), never in Run(). Used by
// the rank's thread, except where it says otherwise.
class Shard {
 public:
  static absl::StatusOr<std::unique_ptr<Shard>> Create(const ModelSpec& spec, const ShardPlan& plan,
                                                       int rank, const MemoryPlan& memory,
                                                       std::unique_ptr<Backend> backend,
                                                       std::unique_ptr<Model> model);

  // Joins the rank to its groups (the ranks of its stage; one rank of each stage) and begins an
  // epoch with step 0. The KV cache's contents are then worth nothing.
  void Connect(std::unique_ptr<Communicator> tensor_group,
               std::unique_ptr<Communicator> pipeline_group, uint64_t epoch);

  // One forward step of arrays that CheckStep() has passed. The result has samples only on the
  // plan's driver rank, and one stage: this rank's timing. FailedPrecondition for a step out of
  // order, of another epoch or with another plan hash.
  absl::StatusOr<StepResult> Run(const StepBatch& batch);

  // Ends a Run() in progress as soon as it waits for a peer. Thread-safe, while connected.
  void Abort(const absl::Status& why);

  std::string operation() const;                     // thread-safe: what it is doing
  absl::Status Ready() { return backend_->Sync(); }  // an error that will stay; between steps
  StageStats stats() const { return stats_; }        // of all steps run
  // Seconds since the running step's input was there; 0 without one. Thread-safe.
  double computing_seconds() const;
  std::string signature() const { return backend_->signature(); }

 private:
  Shard(const ModelSpec& spec, const ShardPlan& plan, int rank, const MemoryPlan& memory,
        std::unique_ptr<Backend> backend, std::unique_ptr<Model> model);
  absl::Status Allocate();
  absl::Status CheckTurn(const StepBatch& batch) const;
  void Upload(const StepBatch& batch);
  void Forward(Matrix x);
  void Finish(const StepBatch& batch, Matrix x, StepResult* result);
  void Sample(const StepBatch& batch, Matrix logits, StepResult* result);
  ForwardContext Context();
  absl::Status Lost() const;  // why a group has failed

  // The time, and what the groups have spent by then, in seconds.
  struct Moment {
    std::chrono::steady_clock::time_point time;
    double waited = 0, transferred = 0;
  };
  Moment Now() const;
  // Of the step begun at `begin`, for which the input was there at arrival_, ending now.
  StageTiming Measure(const Moment& begin);

  const ShardPlan plan_;
  const int rank_;
  const MemoryPlanOptions options_;
  const ExecutorInfo info_;
  const int64_t hidden_width_, result_width_;
  const std::unique_ptr<Backend> backend_;
  const std::unique_ptr<Model> model_;  // destroyed before its backend
  std::unique_ptr<Communicator> tensor_group_, pipeline_group_;

  OwnedMatrix hidden_, results_, inputs_, scratch_;  // results_: what Head() fills
  std::vector<std::unique_ptr<KvCache>> caches_;     // none of a one-shot model
  std::vector<int32_t> sample_rows_, token_types_;
  DeviceBatch batch_;
  uint64_t epoch_ = 0;
  int64_t next_step_ = 0;
  Moment arrival_;  // of the step's input: the wait for the stage before is over
  StageStats stats_;
  std::atomic<int64_t> computing_since_{0};  // arrival_, in nanoseconds, while a step runs
  std::atomic<const char*> operation_{"idle"};
  std::atomic<int> layer_{0};  // while the operation is kLayer
};

// What Allocate() will take, for the memory plan. An encode step's token types take the place of
// the slots.
int64_t InputInts(const MemoryPlanOptions& options);  // of the step's arrays

}  // namespace penstock
