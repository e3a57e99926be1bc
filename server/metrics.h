#pragma once

#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "scheduler/observer.h"
#include "server/metrics_collectors.h"
#include "shard/api/executor.h"

namespace penstock {

struct MetricsOptions {
  std::string listen = "127.0.0.1:9464";  // "off": counted but not exposed
  std::string model;                      // value of the label `model`
};

// Everything the server counts, exposed as Prometheus text under the prefix penstock_. All children
// exist from the start. Thread-safe; the scheduler's thread writes, scrapes read.
//
// Counting rules (a sequence is one sample of a call):
//  - requests_total{method, code}, request_duration_seconds{method}: one per RPC, when its status
//    is decided, refused ones included.
//  - finished_total{reason}: one per sequence; stop, length, error, or cancelled: by the client, by
//    its deadline or because a stop string was found in the text.
//  - queue_seconds: one per sequence that was scheduled, from arrival to first scheduled.
//  - time_to_first_token_seconds: one per sequence that produced a token, from arrival to first
//    token; observed when the sequence ends.
//  - inter_token_seconds: one per token but a sequence's first, so the two counts add up to
//    generation_tokens_total once everything has ended.
//  - prompt_tokens_total: added when a sequence that was scheduled ends. Neither recomputed tokens
//    nor those that a resuming client brings are counted.
//  - Nothing that happened before Serve(), the warm-up, is counted.
class Metrics final : public SchedulerObserver {
 public:
  // Unavailable, naming the address, when it cannot be listened on.
  static absl::StatusOr<std::unique_ptr<Metrics>> Create(const MetricsOptions& options);
  ~Metrics() override;

  // Sequences that arrive from now on count.
  void Serve() { serving_since_.store(absl::ToUnixNanos(absl::Now())); }
  // Shows this executor's stages at each scrape; null stops it, and returns after the last look.
  void WatchStages(const Executor* executor) { stages_->Watch(executor); }

  void OnCall(absl::string_view method, absl::StatusCode code, absl::Duration duration);

  void OnStep(const StepReport& report) override;
  void OnToken(absl::Duration since_previous) override;
  void OnFinish(const FinishReport& report) override;
  void OnPreempt() override;
  void OnState(const SchedulerState& state) override;

  // The text a scrape would get.
  std::string Text() const;
  int port() const;  // 0 when off

 private:
  explicit Metrics(const MetricsOptions& options);
  absl::Status Expose(const std::string& listen);

  prometheus::Counter& AddCounter(const std::string& name, const std::string& help,
                                  prometheus::Labels labels = {});
  prometheus::Gauge& AddGauge(const std::string& name, const std::string& help,
                              prometheus::Labels labels = {});
  prometheus::Histogram& AddHistogram(const std::string& name, const std::string& help,
                                      const std::vector<double>& buckets,
                                      prometheus::Labels labels = {});
  bool serving() const { return serving_since_.load() != kNotYet; }

  static constexpr int64_t kNotYet = INT64_MAX;

  const std::string model_;
  const std::shared_ptr<prometheus::Registry> registry_;
  const std::shared_ptr<StageCollector> stages_;
  const std::shared_ptr<ProcessCollector> process_;
  std::atomic<int64_t> serving_since_{kNotYet};  // nanoseconds since 1970

  std::map<absl::StatusCode, prometheus::Counter*> calls_;
  prometheus::Histogram& call_seconds_;
  prometheus::Gauge& running_;
  prometheus::Gauge& waiting_;
  prometheus::Gauge& in_flight_;
  prometheus::Histogram& queue_seconds_;
  prometheus::Histogram& first_token_seconds_;
  prometheus::Histogram& inter_token_seconds_;
  prometheus::Histogram& step_seconds_;
  prometheus::Counter& prompt_tokens_;
  prometheus::Counter& output_tokens_;
  prometheus::Histogram& batch_size_;
  prometheus::Histogram& prefill_tokens_;
  prometheus::Histogram& decode_tokens_;
  prometheus::Gauge& kv_usage_;
  prometheus::Gauge& kv_free_;
  prometheus::Gauge& kv_used_;
  std::map<std::string, prometheus::Counter*> finished_;
  prometheus::Counter& preemptions_;
  std::unique_ptr<prometheus::Exposer> exposer_;  // last: its threads read the rest
};

}  // namespace penstock
