#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/generator.h"

namespace penstock {

// The load of `penstock bench --concurrency`, put on an engine without gRPC and text.
struct ClosedLoop {
  int32_t concurrency = 1;
  int32_t requests = 1;
  int32_t prompt_tokens = 128;
  int32_t output_tokens = 128;
  int32_t vocab = 0;  // random ids of the prompts are below
  uint64_t seed = 1;
};

struct ClosedLoopResult {
  double seconds = 0;        // from the first start to the last end
  double tokens_per_s = 0;   // drawn
  std::vector<double> ttft;  // seconds from submission to the first token, ascending
};

// Each client submits its next request when its last has ended; tokens are read as soon as they
// are there. The first error of a request, if there was one.
absl::StatusOr<ClosedLoopResult> RunClosedLoop(Generator& generator, const ClosedLoop& load);

}  // namespace penstock
