#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "scheduler/batch_observer.h"
#include "scheduler/observer.h"
#include "server/metrics_registry.h"

namespace penstock {

// Observations of one histogram, gathered by one thread and added with one lock.
class ObservationBatch {
 public:
  // The histogram must have been made with these buckets, which outlive this.
  ObservationBatch(prometheus::Histogram& histogram, const Buckets& buckets);
  void Add(double value);
  void Flush();

 private:
  prometheus::Histogram& histogram_;
  const Buckets& buckets_;
  std::vector<double> counts_;  // by bucket, +Inf last
  double sum_ = 0;
  int64_t count_ = 0;
};

// What is counted per sequence, per one-shot request and per step, of all replicas together.
// Thread-safe. The rules are in metrics.h.
class SequenceMetrics {
 public:
  explicit SequenceMetrics(MetricRegistry& registry);

  // What arrives, is launched or is drawn from now on counts.
  void Serve() { serving_since_.store(absl::ToUnixNanos(absl::Now())); }
  bool serving() const { return serving_since_.load() != kNotYet; }
  bool Counts(absl::Time time) const { return absl::ToUnixNanos(time) >= serving_since_.load(); }

  void OnStep(const StepReport& report);
  void OnBatch(const BatchReport& report);
  void OnPrefix(int32_t prompt_tokens, int32_t cached);
  void OnFinish(const FinishReport& report);
  void OnEncoded(const EncodeFinish& finish);
  void OnPreempt();
  void OnRecovery(const RecoveryReport& report);
  void AddGenerated(int64_t tokens) { generated_.Increment(static_cast<double>(tokens)); }
  ObservationBatch InterToken() const { return {inter_token_seconds_, ShortSeconds()}; }

 private:
  struct PhaseMetrics {
    prometheus::Histogram& size;
    prometheus::Histogram& tokens;
  };
  static PhaseMetrics MakePhase(MetricRegistry& registry, const char* phase);
  void OnScheduled(absl::Time arrival, absl::Time scheduled, int32_t prompt_tokens);

  static constexpr int64_t kNotYet = INT64_MAX;
  std::atomic<int64_t> serving_since_{kNotYet};  // nanoseconds since 1970

  prometheus::Histogram& queue_seconds_;
  prometheus::Histogram& first_token_seconds_;
  prometheus::Histogram& inter_token_seconds_;
  prometheus::Histogram& per_token_seconds_;
  prometheus::Histogram& prefill_seconds_;
  prometheus::Histogram& decode_seconds_;
  prometheus::Histogram& encode_seconds_;
  prometheus::Histogram& step_seconds_;
  prometheus::Counter& prompt_tokens_;
  prometheus::Counter& cached_tokens_;
  prometheus::Counter& generated_;
  prometheus::Histogram& request_prompt_tokens_;
  prometheus::Histogram& request_generated_tokens_;
  prometheus::Counter& prefix_queries_;
  prometheus::Counter& prefix_hits_;
  prometheus::Counter& preemptions_;
  prometheus::Histogram& recovery_seconds_;
  prometheus::Counter& recomputed_tokens_;
  const PhaseMetrics prefill_, decode_, encode_;
  std::array<prometheus::Counter*, 4> flushes_{};  // by FlushReason
  std::map<std::string, prometheus::Counter*, std::less<>> finished_;
};

}  // namespace penstock
