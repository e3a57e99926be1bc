#include "server/metrics_calls.h"

namespace penstock {

CallMetrics::CallMetrics(MetricRegistry& registry) : registry_(registry) {
  MutexLock lock(&mutex_);
  for (const char* method : {"Generate", "Embed", "Classify", "Score", "Status", "Trace"})
    Find(method);
}

CallMetrics::Method& CallMetrics::Find(absl::string_view name) {
  const auto found = methods_.find(name);
  if (found != methods_.end()) return found->second;
  Method& method = methods_[std::string(name)];
  const prometheus::Labels labels = {{"method", std::string(name)}};
  method.seconds =
      &registry_.Histogram("request_duration_seconds", "Whole calls.", LongSeconds(), labels);
  for (size_t code = 0; code < kCodes; ++code) {
    prometheus::Labels with_code = labels;
    with_code["code"] = absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
    method.calls[code] = &registry_.Counter("requests_total", "Calls by final status.", with_code);
  }
  return method;
}

void CallMetrics::OnCall(absl::string_view method, absl::StatusCode code, absl::Duration duration) {
  const auto number = static_cast<size_t>(code);
  const size_t known = number < kCodes ? number : static_cast<size_t>(absl::StatusCode::kUnknown);
  prometheus::Counter* calls = nullptr;
  prometheus::Histogram* seconds = nullptr;
  {
    MutexLock lock(&mutex_);
    const Method& children = Find(method);
    calls = children.calls[known];
    seconds = children.seconds;
  }
  calls->Increment();
  seconds->Observe(absl::ToDoubleSeconds(duration));
}

}  // namespace penstock
