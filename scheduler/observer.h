#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "scheduler/request.h"
#include "scheduler/token_stream.h"
#include "shard/api/step.h"

namespace penstock {

// One sequence's part of a step.
struct StepShare {
  uint64_t sequence = 0;  // Sequence::id: the order of arrival
  int32_t tokens = 0;
  int32_t context = 0;  // its length once the step has run
  bool prefill = false;
};

struct StepReport {
  int64_t step = 0;
  uint64_t epoch = 0;
  int32_t sequences = 0;
  int32_t prefill_sequences = 0;  // of those
  int32_t prefill_tokens = 0;
  int32_t decode_tokens = 0;
  absl::Time launched{}, committed{};
  std::vector<StageTiming> stages{};  // as the executor told
  std::vector<StepShare> shares{};    // only while SchedulerObserver::wants_shares()

  double seconds() const { return absl::ToDoubleSeconds(committed - launched); }
};

// An executor that had failed works again.
struct RecoveryReport {
  absl::Duration taken{};  // since the failure was noticed
  int64_t tokens = 0;      // computed before, to be computed again
};

// How a sequence ended. Cancelled by its reader: status is Cancelled.
struct FinishReport {
  FinishReason reason = FinishReason::kNone;
  absl::Status status{};
  SequenceTimes times{};
  int32_t prompt_tokens = 0;
  int32_t output_tokens = 0;  // drawn here: those of GenerateRequest::generated not counted again
};

// Gauges, as of the last launch or commit.
struct SchedulerState {
  int32_t running = 0;
  int32_t waiting = 0;           // preempted ones included
  int32_t kv_blocks_used = 0;    // held by sequences
  int32_t kv_blocks_cached = 0;  // free, but with a prefix that may be asked for again
  int32_t kv_blocks_total = 0;
  int32_t in_flight = 0;
  int64_t pending_tokens = 0;  // prompt tokens still to be fed and output tokens that may come, of
                               // all that wait or run
  bool healthy = true;         // false while the executor is being restarted, or lost
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
  virtual bool wants_shares() const { return false; }
  virtual void OnToken(absl::Duration since_previous) = 0;  // the second and later of a sequence
  // A sequence has started: `prompt_tokens` were looked up in the prefix cache, `cached` found.
  virtual void OnPrefix(int32_t /*prompt_tokens*/, int32_t /*cached*/) {}
  virtual void OnFinish(const FinishReport& report) = 0;  // a stream was closed
  virtual void OnPreempt() = 0;
  virtual void OnRecovery(const RecoveryReport& /*report*/) {}
  virtual void OnState(const SchedulerState& state) = 0;
};

}  // namespace penstock
