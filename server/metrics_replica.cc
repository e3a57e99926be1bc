#include "server/metrics_replica.h"

#include "absl/strings/str_cat.h"

namespace penstock {
namespace {

prometheus::Labels Of(const std::string& replica) { return {{"replica", replica}}; }

prometheus::Gauge& BlocksGauge(MetricRegistry& registry, const std::string& replica,
                               const char* state) {
  return registry.Gauge("kv_cache_blocks", "KV cache blocks.",
                        {{"replica", replica}, {"state", state}});
}

}  // namespace

ReplicaMetrics::ReplicaMetrics(int replica, int stages, bool aliases, MetricRegistry& registry,
                               SequenceMetrics& sequences, TraceHub& traces)
    : replica_(replica),
      label_(absl::StrCat(replica)),
      registry_(registry),
      sequences_(sequences),
      traces_(traces),
      gauges_{&registry.Gauge("requests_running", "Sequences being computed.", Of(label_)),
              &registry.Gauge("requests_waiting", "Sequences in the queue.", Of(label_)),
              &registry.Gauge("kv_cache_usage_ratio", "Part of the KV cache in use, 0 to 1.",
                              Of(label_))},
      aliases_(aliases ? MakeAliases() : Gauges{}),
      in_flight_(
          registry.Gauge("steps_in_flight", "Steps launched and not yet committed.", Of(label_))),
      kv_free_(BlocksGauge(registry, label_, "free")),
      kv_used_(BlocksGauge(registry, label_, "used")),
      kv_cached_(BlocksGauge(registry, label_, "cached")),
      inter_token_(sequences.InterToken()) {
  for (int stage = 0; stage < stages; ++stage) stages_.push_back(MakeStage(stages_.size()));
}

ReplicaMetrics::Gauges ReplicaMetrics::MakeAliases() {
  const prometheus::Labels labels = {{"model_name", registry_.model()}, {"engine", label_}};
  return {
      &registry_.Alias("vllm:num_requests_running", "As penstock_requests_running.", labels),
      &registry_.Alias("vllm:num_requests_waiting", "As penstock_requests_waiting.", labels),
      &registry_.Alias("vllm:kv_cache_usage_perc", "As penstock_kv_cache_usage_ratio.", labels)};
}

ReplicaMetrics::StageHistograms ReplicaMetrics::MakeStage(size_t stage) {
  constexpr const char* kNames[kPhases] = {"prefill", "decode", "mixed", "encode"};
  StageHistograms histograms{};
  for (size_t phase = 0; phase < kPhases; ++phase)
    histograms[phase] = &registry_.Histogram(
        "stage_compute_seconds", "A stage's computing for one step.", StageSeconds(),
        {{"replica", label_}, {"stage", absl::StrCat(stage)}, {"phase", kNames[phase]}});
  return histograms;
}

void ReplicaMetrics::ObserveStages(const std::vector<StageTiming>& stages, absl::Time launched,
                                   Phase phase) {
  if (!sequences_.Counts(launched)) return;
  while (stages_.size() < stages.size()) stages_.push_back(MakeStage(stages_.size()));
  for (size_t i = 0; i < stages.size(); ++i)
    stages_[i][phase]->Observe(static_cast<double>(stages[i].busy()) * 1e-9);
}

void ReplicaMetrics::OnStep(const StepReport& report) {
  FlushTokens();
  sequences_.OnStep(report);
  const Phase phase = report.decode_tokens == 0    ? kPrefill
                      : report.prefill_tokens == 0 ? kDecode
                                                   : kMixed;
  ObserveStages(report.stages, report.launched, phase);
  if (traces_.tracing()) traces_.OnStep(replica_, report);
}

void ReplicaMetrics::OnBatch(const BatchReport& report) {
  sequences_.OnBatch(report);
  ObserveStages(report.stages, report.launched, kEncode);
  if (traces_.tracing()) traces_.OnBatch(replica_, report);
}

void ReplicaMetrics::OnToken(absl::Duration since_previous) {
  if (!sequences_.serving()) return;
  ++tokens_;
  inter_token_.Add(absl::ToDoubleSeconds(since_previous));
}

void ReplicaMetrics::FlushTokens() {
  if (tokens_ == 0) return;
  sequences_.AddGenerated(tokens_);
  inter_token_.Flush();
  tokens_ = 0;
}

void ReplicaMetrics::OnPrefix(int32_t prompt_tokens, int32_t cached) {
  sequences_.OnPrefix(prompt_tokens, cached);
}

void ReplicaMetrics::OnFinish(const FinishReport& report) {
  FlushTokens();  // who sees the end then finds them counted
  sequences_.OnFinish(report);
}

void ReplicaMetrics::OnEncoded(const EncodeFinish& finish) { sequences_.OnEncoded(finish); }

void ReplicaMetrics::OnPreempt() { sequences_.OnPreempt(); }

void ReplicaMetrics::OnState(const SchedulerState& state) {
  const double usage = state.kv_blocks_total > 0
                           ? static_cast<double>(state.kv_blocks_used) / state.kv_blocks_total
                           : 0;
  for (const Gauges& gauges : {gauges_, aliases_}) {
    if (gauges.running == nullptr) continue;
    gauges.running->Set(state.running);
    gauges.waiting->Set(state.waiting);
    gauges.kv_usage->Set(usage);
  }
  in_flight_.Set(state.in_flight);
  kv_used_.Set(state.kv_blocks_used);
  kv_cached_.Set(state.kv_blocks_cached);
  kv_free_.Set(state.kv_blocks_total - state.kv_blocks_used - state.kv_blocks_cached);
  {
    MutexLock lock(&mutex_);
    state_ = state;
  }
  if (traces_.tracing()) traces_.OnState(replica_, state);
}

SchedulerState ReplicaMetrics::state() const {
  MutexLock lock(&mutex_);
  return state_;
}

}  // namespace penstock
