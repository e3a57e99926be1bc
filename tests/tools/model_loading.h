#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "shard/api/executor.h"
#include "shard/base/dtype.h"
#include "shard/checkpoint/checkpoint.h"

namespace penstock {

// How a check wants its model cut. Everything else is as the server would choose it, of an encoder
// also the context and the tokens of a step.
struct CheckModelOptions {
  int tensor = 1;
  int pipeline = 1;
  DType dtype = DType::kF16;  // of weights and KV cache
  int32_t max_context = 512;
  int32_t max_sequences = 32;
  int32_t max_step_tokens = 512;
};

// Plans, loads and starts a group of ranks in this process.
absl::StatusOr<std::unique_ptr<Executor>> LoadForCheck(const Checkpoint& checkpoint,
                                                       const CheckModelOptions& options);

}  // namespace penstock
