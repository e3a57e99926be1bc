#pragma once

#include <array>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "scheduler/batch_observer.h"
#include "scheduler/observer.h"
#include "server/metrics_registry.h"
#include "server/metrics_sequences.h"
#include "server/trace_hub.h"
#include "shard/base/mutex.h"

namespace penstock {

// What one replica's scheduler (or batcher, for a one-shot model) reports goes here: into the
// counters that all replicas share, into this replica's own gauges and stage histograms, and to
// whoever traces. Reports come from one thread at a time; state() may be called from any.
class ReplicaMetrics final : public SchedulerObserver, public BatchObserver {
 public:
  // Borrows everything. Children for `stages` stages exist at once. `aliases`: the gauges that
  // routers look for under other names, too.
  ReplicaMetrics(int replica, int stages, bool aliases, MetricRegistry& registry,
                 SequenceMetrics& sequences, TraceHub& traces);

  void OnStep(const StepReport& report) override;
  void OnToken(absl::Duration since_previous) override;
  void OnPrefix(int32_t prompt_tokens, int32_t cached) override;
  void OnFinish(const FinishReport& report) override;
  void OnPreempt() override;
  void OnRecovery(const RecoveryReport& report) override { sequences_.OnRecovery(report); }

  void OnBatch(const BatchReport& report) override;
  void OnEncoded(const EncodeFinish& finish) override;

  bool wants_shares() const override { return traces_.tracing(); }
  void OnState(const SchedulerState& state) override ABSL_LOCKS_EXCLUDED(mutex_);

  SchedulerState state() const ABSL_LOCKS_EXCLUDED(mutex_);  // the newest

 private:
  enum Phase { kPrefill, kDecode, kMixed, kEncode, kPhases };
  struct Gauges {
    prometheus::Gauge* running;
    prometheus::Gauge* waiting;
    prometheus::Gauge* kv_usage;
  };
  using StageHistograms = std::array<prometheus::Histogram*, kPhases>;

  Gauges MakeAliases();
  StageHistograms MakeStage(size_t stage);
  void ObserveStages(const std::vector<StageTiming>& stages, absl::Time launched, Phase phase);
  void FlushTokens();

  const int replica_;
  const std::string label_;  // of `replica`
  MetricRegistry& registry_;
  SequenceMetrics& sequences_;
  TraceHub& traces_;

  const Gauges gauges_;
  const Gauges aliases_;  // null pointers when not wanted
  prometheus::Gauge& in_flight_;
  prometheus::Gauge& kv_free_;
  prometheus::Gauge& kv_used_;
  prometheus::Gauge& kv_cached_;
  std::vector<StageHistograms> stages_;
  ObservationBatch inter_token_;
  int64_t tokens_ = 0;  // not yet added

  mutable Mutex mutex_;
  SchedulerState state_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace penstock
