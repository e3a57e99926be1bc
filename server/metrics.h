#pragma once

#include <prometheus/exposer.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/metrics_calls.h"
#include "server/metrics_collectors.h"
#include "server/metrics_registry.h"
#include "server/metrics_replica.h"
#include "server/metrics_sequences.h"
#include "server/trace_hub.h"
#include "shard/api/executor.h"
#include "shard/base/mutex.h"

namespace penstock {

struct MetricsOptions {
  std::string listen = "127.0.0.1:9464";  // "off": counted but not exposed
  bool aliases = false;                   // running, waiting and KV usage under vLLM's names, too
  std::string model;                      // value of the label `model`
};

// What is known of a replica right now.
struct ReplicaSnapshot {
  SchedulerState state;  // as its scheduler told last
  PipelineStats stages;  // empty unless its executor is watched
};

// Everything the server tells about itself, exposed as Prometheus text under the prefix penstock_.
// All children exist from the start. Thread-safe; schedulers write, scrapes read.
//
// Counting rules (a sequence is one sample of a generating call, unless the tokens that a resuming
// client holds end it already, or one input of a one-shot call):
//  - requests_total{method, code}, request_duration_seconds{method}: one per RPC, when its status
//    is decided, refused ones included.
//  - finished_total{reason}: one per sequence; stop, length, encoded (a one-shot result), error, or
//    cancelled: by the client, by its deadline or because a stop string was found in the text.
//  - queue_seconds, request_prompt_tokens, prompt_tokens_total and, unless one-shot,
//    request_generation_tokens: once per sequence that was scheduled, when it ends. queue_seconds
//    is from arrival to first scheduled. Neither recomputed tokens nor those that a resuming client
//    brings are counted.
//  - time_to_first_token_seconds (arrival to first token), prefill_seconds (first scheduled to
//    first token) and decode_seconds (first to last token): once per sequence that produced a
//    token, when it ends; request_time_per_output_token_seconds (decode seconds by the tokens after
//    the first) once per sequence that produced two. encode_seconds (first scheduled to result):
//    once per one-shot sequence that has a result.
//  - inter_token_seconds: one per token but a sequence's first. So once everything has ended, its
//    count and that of time_to_first_token_seconds add up to generation_tokens_total, which is the
//    sum of request_generation_tokens; the sum of request_prompt_tokens is prompt_tokens_total.
//  - prefix_cache_queries_total, prefix_cache_hits_total: tokens, at each start of a sequence;
//    cached_prompt_tokens_total: those of its first start, when it ends.
//  - batch_size{phase}, batch_tokens{phase}: one per step and phase that it has; step_seconds: one
//    per step; stage_compute_seconds{replica, stage, phase}: one per step and stage, where a step
//    with both phases is `mixed`. batches_total{phase, reason}: one per batch of a one-shot model.
//    A step that fails is none of these.
//  - Nothing that happened before Serve(), the warm-up, is counted, but for stage_*_seconds_total.
// Counters and histograms add up all replicas; gauges and stage_* are per `replica`.
class Metrics final {
 public:
  // Unavailable, naming the address, when it cannot be listened on.
  static absl::StatusOr<std::unique_ptr<Metrics>> Create(const MetricsOptions& options);
  ~Metrics();

  // The observer of one more replica, to be given to its scheduler or batcher. Replicas are
  // numbered from 0 in the order of these calls. `stages`: of its executor.
  ReplicaMetrics& AddReplica(int stages) ABSL_LOCKS_EXCLUDED(mutex_);
  // Shows this executor's stages at each scrape; null stops it, and returns after the last look.
  void WatchStages(const Executor* executor, int replica = 0) { stages_->Watch(executor, replica); }
  void OnModelLoaded(absl::Duration duration) { load_.Set(absl::ToDoubleSeconds(duration)); }
  // Sequences that arrive from now on count.
  void Serve() { sequences_.Serve(); }

  void OnCall(absl::string_view method, absl::StatusCode code, absl::Duration duration) {
    calls_.OnCall(method, code, duration);
  }

  std::vector<ReplicaSnapshot> Replicas() const ABSL_LOCKS_EXCLUDED(mutex_);
  TraceHub& traces() { return traces_; }

  // The text a scrape would get.
  std::string Text() const;
  int port() const;  // 0 when off

 private:
  explicit Metrics(const MetricsOptions& options);
  absl::Status Expose(const std::string& listen);

  const bool aliases_;
  MetricRegistry registry_;
  const std::shared_ptr<StageCollector> stages_;
  const std::shared_ptr<ProcessCollector> process_;
  CallMetrics calls_;
  SequenceMetrics sequences_;
  prometheus::Gauge& load_;
  TraceHub traces_;
  mutable Mutex mutex_;
  std::deque<ReplicaMetrics> replicas_ ABSL_GUARDED_BY(mutex_);  // addresses stay
  std::unique_ptr<prometheus::Exposer> exposer_;                 // last: its threads read the rest
};

}  // namespace penstock
