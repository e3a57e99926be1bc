#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/metrics_registry.h"
#include "shard/base/mutex.h"

namespace penstock {

// What is counted per RPC: requests_total{method, code} and request_duration_seconds{method}. The
// methods of all services exist from the start with every code. Thread-safe.
class CallMetrics {
 public:
  explicit CallMetrics(MetricRegistry& registry);

  // A call has ended. A method that nobody named before gets its children now.
  void OnCall(absl::string_view method, absl::StatusCode code, absl::Duration duration)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  static constexpr size_t kCodes = 17;  // of gRPC, 0 to 16
  struct Method {
    std::array<prometheus::Counter*, kCodes> calls{};
    prometheus::Histogram* seconds = nullptr;
  };
  Method& Find(absl::string_view method) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  MetricRegistry& registry_;
  Mutex mutex_;
  std::map<std::string, Method, std::less<>> methods_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace penstock
