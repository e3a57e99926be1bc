#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "scheduler/observer.h"
#include "shard/api/step.h"

namespace penstock {

// Why a batch was sent when it was.
enum class FlushReason : uint8_t {
  kFull,       // nothing more would fit
  kPreferred,  // it had one of the preferred sizes
  kTimeout,    // its oldest request had waited for the whole queue delay
  kIdle,       // a stage had nothing to do, and there is no reason to let it wait
};

struct BatchReport {
  int64_t step = 0;
  uint64_t epoch = 0;
  int32_t requests = 0;
  int64_t tokens = 0;
  FlushReason reason = FlushReason::kIdle;
  absl::Time launched, committed;
  std::vector<StageTiming> stages;  // as the executor told
  std::vector<StepShare> shares;    // only while BatchObserver::wants_shares(); all prefill

  double seconds() const { return absl::ToDoubleSeconds(committed - launched); }
};

// When a one-shot request passed each stage; infinite past where it has not.
struct EncodeTimes {
  absl::Time arrival = absl::InfinitePast();
  absl::Time first_scheduled = absl::InfinitePast();  // left the queue
  absl::Time finished = absl::InfinitePast();         // its step was committed
};

// How a one-shot request ended. Cancelled by its reader: status is Cancelled; its time is over:
// DeadlineExceeded.
struct EncodeFinish {
  absl::Status status;
  EncodeTimes times;
  int32_t tokens = 0;
};

// What the batcher tells about itself; the metrics implement it. Called on the batcher's thread;
// must be quick.
class BatchObserver {
 public:
  virtual ~BatchObserver() = default;
  virtual void OnBatch(const BatchReport& report) = 0;  // committed
  virtual bool wants_shares() const { return false; }
  virtual void OnEncoded(const EncodeFinish& finish) = 0;  // a request has ended, well or not
  virtual void OnRecovery(const RecoveryReport& /*report*/) {}
  // running: requests in steps in flight; waiting: in the queue.
  virtual void OnState(const SchedulerState& state) = 0;
};

}  // namespace penstock
