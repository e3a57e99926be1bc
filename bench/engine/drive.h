#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "scheduler/observer.h"
#include "scheduler/request.h"
#include "scheduler/scheduler.h"
#include "shard/api/executor.h"

namespace penstock {

// A request and when it comes.
struct Arrival {
  GenerateRequest request;
  absl::Duration delay = absl::ZeroDuration();  // after the one before
  int64_t after_tokens = 0;  // and not before all together have been given so many tokens
};

// Times of the steady clock, in nanoseconds, as those of StageTiming.
struct StreamLog {
  int64_t submitted = 0;
  std::vector<int64_t> tokens;  // when each was there to be read
  std::vector<int32_t> ids;     // parallel to these
};

// What happened while a scheduler served its requests.
struct RunLog {
  std::vector<StepReport> steps;   // in order
  std::vector<StreamLog> streams;  // parallel to the arrivals
};

// Restarts `executor` and serves the arrivals with a scheduler of its own, on its own thread as in
// the server. The error of the first request that fails.
absl::StatusOr<RunLog> Drive(const SchedulerOptions& options, Executor& executor,
                             const std::vector<Arrival>& arrivals);

// A prompt of random tokens, the same for the same seed; greedy, without a stop token.
GenerateRequest MakeRequest(uint64_t seed, int32_t vocab, int32_t prompt, int32_t output);

}  // namespace penstock
