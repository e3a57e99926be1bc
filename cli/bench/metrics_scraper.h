#pragma once

#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "cli/bench/metrics_text.h"
#include "cli/bench/run_clock.h"
#include "shard/base/mutex.h"

namespace penstock {

// The body of an HTTP GET, within `timeout`. Errors name the URL.
absl::StatusOr<std::string> FetchUrl(const std::string& url, absl::Duration timeout);

// Reads a server's metrics every second, from construction to Stop(), on a thread of its own.
class MetricsScraper {
 public:
  MetricsScraper(std::string url, const RunClock& clock);
  ~MetricsScraper() { Stop(); }

  // Reads once more and ends. The samples so far; the ones that could not be read are missing.
  std::vector<MetricsSample> Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);
  void Read();

  const std::string url_;
  const RunClock clock_;
  Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<MetricsSample> samples_;  // of the thread until it has ended
  std::thread thread_;
};

}  // namespace penstock
