#include "server/metrics_sequences.h"

#include <algorithm>
#include <utility>

namespace penstock {
namespace {

absl::string_view ReasonName(const absl::Status& status, absl::string_view if_ok) {
  if (absl::IsCancelled(status) || absl::IsDeadlineExceeded(status)) return "cancelled";
  return status.ok() ? if_ok : "error";
}

bool Passed(absl::Time time) { return time != absl::InfinitePast(); }

void ObserveBetween(absl::Time begin, absl::Time end, prometheus::Histogram& histogram) {
  histogram.Observe(absl::ToDoubleSeconds(end - begin));
}

}  // namespace

ObservationBatch::ObservationBatch(prometheus::Histogram& histogram, const Buckets& buckets)
    : histogram_(histogram), buckets_(buckets), counts_(buckets.size() + 1) {}

void ObservationBatch::Add(double value) {
  const auto bucket = std::lower_bound(buckets_.begin(), buckets_.end(), value);
  ++counts_[static_cast<size_t>(bucket - buckets_.begin())];
  sum_ += value;
  ++count_;
}

void ObservationBatch::Flush() {
  if (count_ == 0) return;
  histogram_.ObserveMultiple(counts_, std::exchange(sum_, 0));
  std::fill(counts_.begin(), counts_.end(), 0);
  count_ = 0;
}

SequenceMetrics::PhaseMetrics SequenceMetrics::MakePhase(MetricRegistry& registry,
                                                         const char* phase) {
  const prometheus::Labels labels = {{"phase", phase}};
  return {registry.Histogram("batch_size", "Sequences of a step.", BatchSizes(), labels),
          registry.Histogram("batch_tokens", "Tokens of a step.", BatchTokens(), labels)};
}

SequenceMetrics::SequenceMetrics(MetricRegistry& registry)
    : queue_seconds_(
          registry.Histogram("queue_seconds", "Arrival to first scheduled.", LongSeconds())),
      first_token_seconds_(registry.Histogram("time_to_first_token_seconds",
                                              "Arrival to first token.", LongSeconds())),
      inter_token_seconds_(registry.Histogram(
          "inter_token_seconds", "Between a sequence's neighbouring tokens.", ShortSeconds())),
      per_token_seconds_(registry.Histogram("request_time_per_output_token_seconds",
                                            "A sequence's mean time between tokens.",
                                            ShortSeconds())),
      prefill_seconds_(
          registry.Histogram("prefill_seconds", "First scheduled to first token.", LongSeconds())),
      decode_seconds_(registry.Histogram("decode_seconds", "First to last token.", LongSeconds())),
      encode_seconds_(registry.Histogram("encode_seconds",
                                         "A one-shot request from first scheduled to its result.",
                                         LongSeconds())),
      step_seconds_(
          registry.Histogram("step_seconds", "A step from launch to commit.", ShortSeconds())),
      prompt_tokens_(
          registry.Counter("prompt_tokens_total", "Tokens of prompts that were processed.")),
      cached_tokens_(registry.Counter("cached_prompt_tokens_total",
                                      "Of prompt_tokens_total, found in the prefix cache.")),
      generated_(registry.Counter("generation_tokens_total", "Tokens generated.")),
      request_prompt_tokens_(registry.Histogram("request_prompt_tokens",
                                                "Prompt tokens of a sequence.", TokenCounts())),
      request_generated_tokens_(registry.Histogram(
          "request_generation_tokens", "Tokens generated for a sequence.", TokenCounts())),
      prefix_queries_(registry.Counter("prefix_cache_queries_total",
                                       "Prompt tokens looked up in the prefix cache.")),
      prefix_hits_(registry.Counter("prefix_cache_hits_total", "Of those, found.")),
      preemptions_(registry.Counter("preemptions_total", "Sequences put back to be recomputed.",
                                    {{"kind", "recompute"}})),
      recovery_seconds_(registry.Histogram(
          "recovery_seconds", "From a failed step to an executor that works.", LongSeconds())),
      recomputed_tokens_(registry.Counter("recomputed_tokens_total",
                                          "Tokens computed again after the executor had failed.")),
      prefill_(MakePhase(registry, "prefill")),
      decode_(MakePhase(registry, "decode")),
      encode_(MakePhase(registry, "encode")) {
  constexpr const char* kFlushReasons[] = {"full", "preferred", "timeout", "idle"};
  for (size_t i = 0; i < flushes_.size(); ++i)
    flushes_[i] = &registry.Counter("batches_total", "Batches by why they were sent.",
                                    {{"phase", "encode"}, {"reason", kFlushReasons[i]}});
  for (const char* reason : {"stop", "length", "encoded", "cancelled", "error"})
    finished_[reason] =
        &registry.Counter("finished_total", "Sequences by how they ended.", {{"reason", reason}});
}

void SequenceMetrics::OnStep(const StepReport& report) {
  if (!Counts(report.launched)) return;
  step_seconds_.Observe(report.seconds());
  if (report.prefill_tokens > 0) {
    prefill_.size.Observe(report.prefill_sequences);
    prefill_.tokens.Observe(report.prefill_tokens);
  }
  if (report.decode_tokens > 0) {
    decode_.size.Observe(report.sequences - report.prefill_sequences);
    decode_.tokens.Observe(report.decode_tokens);
  }
}

void SequenceMetrics::OnBatch(const BatchReport& report) {
  if (!Counts(report.launched)) return;
  step_seconds_.Observe(report.seconds());
  encode_.size.Observe(report.requests);
  encode_.tokens.Observe(static_cast<double>(report.tokens));
  flushes_[static_cast<size_t>(report.reason)]->Increment();
}

void SequenceMetrics::OnPrefix(int32_t prompt_tokens, int32_t cached) {
  if (!serving()) return;
  prefix_queries_.Increment(prompt_tokens);
  prefix_hits_.Increment(cached);
}

void SequenceMetrics::OnPreempt() {
  if (serving()) preemptions_.Increment();
}

void SequenceMetrics::OnRecovery(const RecoveryReport& report) {
  recovery_seconds_.Observe(absl::ToDoubleSeconds(report.taken));
  recomputed_tokens_.Increment(static_cast<double>(report.tokens));
}

void SequenceMetrics::OnScheduled(absl::Time arrival, absl::Time scheduled, int32_t prompt_tokens) {
  ObserveBetween(arrival, scheduled, queue_seconds_);
  prompt_tokens_.Increment(prompt_tokens);
  request_prompt_tokens_.Observe(prompt_tokens);
}

void SequenceMetrics::OnFinish(const FinishReport& report) {
  const SequenceTimes& times = report.times;
  if (!Counts(times.arrival)) return;
  const char* if_ok = report.reason == FinishReason::kLength ? "length" : "stop";
  finished_.find(ReasonName(report.status, if_ok))->second->Increment();
  if (!Passed(times.first_scheduled)) return;
  OnScheduled(times.arrival, times.first_scheduled, report.prompt_tokens);
  cached_tokens_.Increment(times.cached_tokens);
  request_generated_tokens_.Observe(report.output_tokens);
  if (!Passed(times.first_token)) return;
  generated_.Increment();  // the first; ReplicaMetrics::OnToken has counted the others
  ObserveBetween(times.arrival, times.first_token, first_token_seconds_);
  ObserveBetween(times.first_scheduled, times.first_token, prefill_seconds_);
  ObserveBetween(times.first_token, times.last_token, decode_seconds_);
  if (report.output_tokens > 1)
    per_token_seconds_.Observe(absl::ToDoubleSeconds(times.last_token - times.first_token) /
                               (report.output_tokens - 1));
}

void SequenceMetrics::OnEncoded(const EncodeFinish& finish) {
  const EncodeTimes& times = finish.times;
  if (!Counts(times.arrival)) return;
  finished_.find(ReasonName(finish.status, "encoded"))->second->Increment();
  if (!Passed(times.first_scheduled)) return;
  OnScheduled(times.arrival, times.first_scheduled, finish.tokens);
  if (Passed(times.finished))
    ObserveBetween(times.first_scheduled, times.finished, encode_seconds_);
}

}  // namespace penstock
