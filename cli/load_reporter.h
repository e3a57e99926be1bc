#pragma once

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "server/serving_plan.h"
#include "shard/base/mutex.h"

namespace penstock {

// While it lives, logs each second and at its end how far every rank has come with loading: bytes,
// MB/s, and read amplification (bytes read from the disk per byte needed).
class LoadReporter {
 public:
  explicit LoadReporter(const LoadProgress& progress);
  ~LoadReporter();

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);
  void Report() const;

  const LoadProgress& progress_;
  const absl::Time begin_;
  Mutex mutex_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace penstock
