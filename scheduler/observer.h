#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "scheduler/request.h"
#include "scheduler/token_stream.h"

namespace penstock {

struct StepReport {
  int32_t sequences = 0;
  int32_t prefill_tokens = 0;
  int32_t decode_tokens = 0;
  double seconds = 0;  // from launch to commit
};

// Gauges, as of the last launch or commit.
struct SchedulerState {
  int32_t running = 0;
  int32_t waiting = 0;  // preempted ones included
  int32_t kv_blocks_used = 0;
  int32_t kv_blocks_total = 0;
  int32_t in_flight = 0;
  bool healthy = true;  // false while the executor is being restarted, or lost
  // When a step was last committed, or work arrived where there was none. Work that is there and
  // an old time mean a stall.
  absl::Time last_progress = absl::InfinitePast();

  bool has_work() const { return running + waiting + in_flight > 0; }
};

// What the scheduler tells about itself; the metrics implement it. Called on the scheduler's
// thread; must be quick.
class SchedulerObserver {
 public:
  virtual ~SchedulerObserver() = default;
  virtual void OnStep(const StepReport& report) = 0;
  virtual void OnToken(absl::Duration since_previous) = 0;  // the second and later of a sequence
  // A stream was closed. `output_tokens` were drawn here: those of GenerateRequest::generated are
  // not counted again. Cancelled by its reader: status is Cancelled.
  virtual void OnFinish(FinishReason reason, const absl::Status& status, const SequenceTimes& times,
                        int32_t prompt_tokens, int32_t output_tokens) = 0;
  virtual void OnPreempt() = 0;
  virtual void OnState(const SchedulerState& state) = 0;
};

}  // namespace penstock
