#pragma once

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "scheduler/batch_observer.h"
#include "scheduler/request_queue.h"

namespace penstock {

struct BatchLimits {
  int32_t stages = 1;
  int32_t max_in_flight = 1;
  int32_t max_requests = 0;  // of a batch
  int64_t max_tokens = 0;    // of a batch of several; a longer request runs alone
  absl::Duration max_queue_delay;
  std::vector<int32_t> preferred_sizes;  // ascending, at most max_requests
};

// What to run next. Empty: nothing should be launched now.
struct BatchPlan {
  std::vector<const QueuedRequest*> requests;
  FlushReason reason = FlushReason::kIdle;
  bool alone = false;  // nothing may be launched beside it
};

// The batcher's policy, without thread, clock or I/O; deterministic.
//
// A batch takes the queue's head, then whatever follows and still fits the token budget: ragged
// rows are packed without padding, so a long input costs only its own tokens, and a short one from
// further behind fills what is left. At most kLookAhead requests are passed over for it, and never
// the head, so each request's turn comes.
//
// While every stage has a step, a batch is sent only when full: waiting costs nothing then, and
// batches form by themselves. A stage without a step gets what there is; only if no step at all is
// in flight, requests are held back for company, until one has waited for the queue delay or a
// preferred size is reached (the dynamic batcher of Triton); and not at all while arrivals are so
// rare that nobody is to be expected in that time: to hold back would only cost. With P stages to
// fill, what waits is cut into equal shares, so that the stages have work at the same time.
//
// A request that was in two failed steps is a suspect: it runs alone, so that a third failure is
// nobody else's.
class BatchPlanner {
 public:
  static constexpr int32_t kSuspectFailures = 2;
  static constexpr int32_t kLookAhead = 32;
  // Tokens below which a smaller share costs more in re-read weights than it fills.
  static constexpr int64_t kMinShare = 64;

  explicit BatchPlanner(const BatchLimits& limits);

  void OnArrival(absl::Time arrival);  // of each request, once

  // The requests stay in `queue`; the caller takes them.
  BatchPlan Plan(const RequestQueue& queue, int32_t steps_in_flight, absl::Time now) const;

  // When Plan() will find something to do without any further request, while nothing is in flight;
  // in the past: now.
  absl::Time NextFlush(const RequestQueue& queue) const;

 private:
  struct Pick {
    std::vector<const QueuedRequest*> requests;
    bool full = false;  // nothing more would fit
  };
  Pick Fill(const RequestQueue& queue, int64_t max_tokens) const;
  Pick FillShare(const RequestQueue& queue, int32_t parts) const;
  int32_t PreferredSize(size_t size) const;
  bool expects_company() const { return arrival_gap_ <= limits_.max_queue_delay; }

  const BatchLimits limits_;
  const int32_t wanted_in_flight_;  // so many steps that no stage idles
  absl::Time last_arrival_ = absl::InfiniteFuture();
  absl::Duration arrival_gap_;  // between arrivals, lately; zero at first: company is expected
};

}  // namespace penstock
