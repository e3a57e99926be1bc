#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/backend/cpu/cpu_backend.h"
#include "shard/checkpoint/checkpoint.h"
#include "shard/model/model_spec.h"
#include "shard/profile/operation_log.h"
#include "shard/shard.h"

namespace penstock {

struct StepProfilerOptions {
  CpuOptions cpu;
  DType dtype = DType::kF16;  // of weights and KV cache
  int32_t max_sequences = 1;
  int32_t max_context = 0;      // of one sequence, what a profiled step writes included
  int32_t max_step_tokens = 1;  // rows of one step
};

// Where the time of one kind of step goes.
struct StepProfile {
  int steps = 0;
  double seconds = 0;                       // of all steps
  std::vector<OperationCost> operations{};  // likewise

  double Seconds(OperationKind kind) const;
  double OutsideSeconds() const;  // of no operation
};

// A whole model as one rank of this process, whose steps are timed operation by operation. The
// steps are like those of a server, but their caches hold zeros, which takes the same time.
class StepProfiler {
 public:
  static absl::StatusOr<std::unique_ptr<StepProfiler>> Load(const Checkpoint& checkpoint,
                                                            const StepProfilerOptions& options);

  const ModelSpec& spec() const { return spec_; }

  // `steps` steps in which each of `sequences`, `context` tokens long by then, draws a token.
  absl::StatusOr<StepProfile> Decode(int32_t sequences, int32_t context, int steps);
  // Of one prompt of `tokens`; of an encoder, one text.
  absl::StatusOr<StepProfile> Prefill(int32_t tokens, int steps);

 private:
  explicit StepProfiler(ModelSpec spec) : spec_(std::move(spec)) {}
  // Runs steps that append `tokens` to each sequence; the first one is not counted.
  absl::StatusOr<StepProfile> Run(int32_t sequences, int32_t context, int32_t tokens, int steps);
  StepBatch MakeStep(int32_t sequences, int32_t context, int32_t tokens);

  const ModelSpec spec_;
  OperationLog log_;
  ExecutorInfo info_;
  std::unique_ptr<Shard> shard_;
  int64_t next_step_ = 0;
};

}  // namespace penstock
