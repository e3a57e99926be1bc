#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "proto/kserve/inference.pb.h"
#include "shard/base/mutex.h"

namespace penstock::kserve {

// What ModelStatistics tells of the inferences that came by this protocol. Thread-safe.
class InferStatistics {
 public:
  // One of `batch` elements has succeeded. `queue`: until it ran; `total`: from its arrival.
  void OnSuccess(int64_t batch, absl::Duration queue, absl::Duration total)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void OnFailure(absl::Duration total) ABSL_LOCKS_EXCLUDED(mutex_);
  void Fill(inference::ModelStatistics* to) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Sum {
    uint64_t count = 0;
    absl::Duration time;
    void Add(absl::Duration duration);
    void Fill(inference::StatisticDuration* to) const;
  };
  mutable Mutex mutex_;
  Sum success_ ABSL_GUARDED_BY(mutex_), fail_ ABSL_GUARDED_BY(mutex_);
  Sum queue_ ABSL_GUARDED_BY(mutex_), infer_ ABSL_GUARDED_BY(mutex_);
  uint64_t elements_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time last_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

// Counts one inference: as failed, unless it is said to have succeeded. Of one call.
class CountedInference {
 public:
  explicit CountedInference(InferStatistics& statistics);
  ~CountedInference();
  CountedInference(const CountedInference&) = delete;
  CountedInference& operator=(const CountedInference&) = delete;
  void Succeed(int64_t batch, absl::Duration queue);

 private:
  InferStatistics& statistics_;
  const absl::Time arrival_;
  bool counted_ = false;
};

}  // namespace penstock::kserve
