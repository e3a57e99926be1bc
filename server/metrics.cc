#include "server/metrics.h"

#include <prometheus/text_serializer.h>

#include <exception>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

using Buckets = std::vector<double>;

// Seconds. Long ones go on to beyond 40 minutes: a long answer must not vanish in +Inf.
const Buckets kShortSeconds = {.001, .0025, .005, .0075, .01, .015, .02, .03, .04, .05, .075,
                               .1,   .15,   .2,   .3,    .5,  .75,  1,   2,   5,   10};
const Buckets kLongSeconds = {.0005, .001, .0025, .005, .01, .025, .05, .1,  .25,  .5,   1,   2.5,
                              5,     10,   20,    40,   80,  160,  320, 640, 1280, 2560, 5120};
const Buckets kSequences = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
const Buckets kTokens = {0, 1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};

constexpr absl::StatusCode kCodes[] = {absl::StatusCode::kOk,
                                       absl::StatusCode::kCancelled,
                                       absl::StatusCode::kUnknown,
                                       absl::StatusCode::kInvalidArgument,
                                       absl::StatusCode::kNotFound,
                                       absl::StatusCode::kDeadlineExceeded,
                                       absl::StatusCode::kAborted,
                                       absl::StatusCode::kResourceExhausted,
                                       absl::StatusCode::kInternal,
                                       absl::StatusCode::kFailedPrecondition,
                                       absl::StatusCode::kUnavailable,
                                       absl::StatusCode::kDataLoss,
                                       absl::StatusCode::kOutOfRange,
                                       absl::StatusCode::kUnimplemented,
                                       absl::StatusCode::kAlreadyExists,
                                       absl::StatusCode::kPermissionDenied,
                                       absl::StatusCode::kUnauthenticated};

absl::string_view ReasonName(FinishReason reason, const absl::Status& status) {
  if (absl::IsCancelled(status) || absl::IsDeadlineExceeded(status)) return "cancelled";
  if (!status.ok()) return "error";
  return reason == FinishReason::kLength ? "length" : "stop";
}

void ObserveBetween(absl::Time begin, absl::Time end, prometheus::Histogram& histogram) {
  histogram.Observe(absl::ToDoubleSeconds(end - begin));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Metrics>> Metrics::Create(const MetricsOptions& options) {
  auto metrics = absl::WrapUnique(new Metrics(options));
  if (options.listen != "off") RETURN_IF_ERROR(metrics->Expose(options.listen));
  return metrics;
}

Metrics::Metrics(const MetricsOptions& options)
    : model_(options.model),
      registry_(std::make_shared<prometheus::Registry>()),
      stages_(std::make_shared<StageCollector>(options.model)),
      process_(std::make_shared<ProcessCollector>()),
      call_seconds_(AddHistogram("request_duration_seconds", "Whole calls.", kLongSeconds,
                                 {{"method", "Generate"}})),
      running_(AddGauge("requests_running", "Sequences being generated.")),
      waiting_(AddGauge("requests_waiting", "Sequences in the queue.")),
      in_flight_(AddGauge("steps_in_flight", "Steps launched and not yet committed.")),
      queue_seconds_(AddHistogram("queue_seconds", "Arrival to first scheduled.", kLongSeconds)),
      first_token_seconds_(
          AddHistogram("time_to_first_token_seconds", "Arrival to first token.", kLongSeconds)),
      inter_token_seconds_(AddHistogram(
          "inter_token_seconds", "Between a sequence's neighbouring tokens.", kShortSeconds)),
      step_seconds_(AddHistogram("step_seconds", "A step from launch to commit.", kShortSeconds)),
      prompt_tokens_(AddCounter("prompt_tokens_total", "Tokens of prompts that were processed.")),
      output_tokens_(AddCounter("generation_tokens_total", "Tokens generated.")),
      batch_size_(AddHistogram("batch_size", "Sequences in a step.", kSequences)),
      prefill_tokens_(
          AddHistogram("batch_tokens", "Tokens in a step.", kTokens, {{"phase", "prefill"}})),
      decode_tokens_(
          AddHistogram("batch_tokens", "Tokens in a step.", kTokens, {{"phase", "decode"}})),
      kv_usage_(AddGauge("kv_cache_usage_ratio", "Part of the KV cache in use, 0 to 1.")),
      kv_free_(AddGauge("kv_cache_blocks", "KV cache blocks.", {{"state", "free"}})),
      kv_used_(AddGauge("kv_cache_blocks", "KV cache blocks.", {{"state", "used"}})),
      preemptions_(AddCounter("preemptions_total", "Sequences put back to be recomputed.",
                              {{"kind", "recompute"}})) {
  for (absl::StatusCode code : kCodes)
    calls_[code] = &AddCounter("requests_total", "Calls by final status.",
                               {{"method", "Generate"}, {"code", absl::StatusCodeToString(code)}});
  for (const char* reason : {"stop", "length", "cancelled", "error"})
    finished_[reason] =
        &AddCounter("finished_total", "Sequences by how they ended.", {{"reason", reason}});
  AddGauge("build_info", "Always 1.", {{"version", PENSTOCK_VERSION}}).Set(1);
}

Metrics::~Metrics() = default;

absl::Status Metrics::Expose(const std::string& listen) {
  try {
    exposer_ = std::make_unique<prometheus::Exposer>(listen, 2);
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", listen, " for metrics (in use?): ", error.what()));
  }
  exposer_->RegisterCollectable(registry_);
  exposer_->RegisterCollectable(stages_);
  exposer_->RegisterCollectable(process_);
  return absl::OkStatus();
}

prometheus::Counter& Metrics::AddCounter(const std::string& name, const std::string& help,
                                         prometheus::Labels labels) {
  labels["model"] = model_;
  return prometheus::BuildCounter()
      .Name("penstock_" + name)
      .Help(help)
      .Register(*registry_)
      .Add(labels);
}

prometheus::Gauge& Metrics::AddGauge(const std::string& name, const std::string& help,
                                     prometheus::Labels labels) {
  labels["model"] = model_;
  return prometheus::BuildGauge()
      .Name("penstock_" + name)
      .Help(help)
      .Register(*registry_)
      .Add(labels);
}

prometheus::Histogram& Metrics::AddHistogram(const std::string& name, const std::string& help,
                                             const std::vector<double>& buckets,
                                             prometheus::Labels labels) {
  labels["model"] = model_;
  return prometheus::BuildHistogram()
      .Name("penstock_" + name)
      .Help(help)
      .Register(*registry_)
      .Add(labels, buckets);
}

void Metrics::OnCall(absl::string_view method, absl::StatusCode code, absl::Duration duration) {
  (void)method;  // one method so far; its children are made in the constructor
  const auto counter = calls_.find(code);
  (counter != calls_.end() ? counter->second : calls_.at(absl::StatusCode::kUnknown))->Increment();
  call_seconds_.Observe(absl::ToDoubleSeconds(duration));
}

void Metrics::OnStep(const StepReport& report) {
  if (!serving()) return;
  step_seconds_.Observe(report.seconds());
  batch_size_.Observe(report.sequences);
  if (report.prefill_tokens > 0) prefill_tokens_.Observe(report.prefill_tokens);
  if (report.decode_tokens > 0) decode_tokens_.Observe(report.decode_tokens);
}

void Metrics::OnToken(absl::Duration since_previous) {
  if (!serving()) return;
  output_tokens_.Increment();
  inter_token_seconds_.Observe(absl::ToDoubleSeconds(since_previous));
}

void Metrics::OnFinish(const FinishReport& report) {
  const SequenceTimes& times = report.times;
  if (absl::ToUnixNanos(times.arrival) < serving_since_.load()) return;
  finished_.at(std::string(ReasonName(report.reason, report.status)))->Increment();
  if (times.first_scheduled != absl::InfinitePast()) {
    ObserveBetween(times.arrival, times.first_scheduled, queue_seconds_);
    prompt_tokens_.Increment(report.prompt_tokens);
  }
  if (times.first_token != absl::InfinitePast()) {
    ObserveBetween(times.arrival, times.first_token, first_token_seconds_);
    output_tokens_.Increment();
  }
}

void Metrics::OnPreempt() { preemptions_.Increment(); }

void Metrics::OnState(const SchedulerState& state) {
  running_.Set(state.running);
  waiting_.Set(state.waiting);
  in_flight_.Set(state.in_flight);
  kv_used_.Set(state.kv_blocks_used);
  kv_free_.Set(state.kv_blocks_total - state.kv_blocks_used);
  if (state.kv_blocks_total > 0)
    kv_usage_.Set(static_cast<double>(state.kv_blocks_used) / state.kv_blocks_total);
}

std::string Metrics::Text() const {
  std::vector<prometheus::MetricFamily> families = registry_->Collect();
  for (prometheus::MetricFamily& family : stages_->Collect()) families.push_back(std::move(family));
  for (prometheus::MetricFamily& family : process_->Collect())
    families.push_back(std::move(family));
  return prometheus::TextSerializer().Serialize(families);
}

int Metrics::port() const { return exposer_ ? exposer_->GetListeningPorts().front() : 0; }

}  // namespace penstock
