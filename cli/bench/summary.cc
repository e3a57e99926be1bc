#include "cli/bench/summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/status/status.h"

namespace penstock {
namespace {

double NearestRank(const std::vector<double>& sorted, double percent) {
  const double rank = std::ceil(percent / 100 * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::max(1.0, rank)) - 1];
}

void AddIfTold(const std::optional<absl::Duration>& time, std::vector<double>* seconds) {
  if (time) seconds->push_back(absl::ToDoubleSeconds(*time));
}

std::vector<NamedLatency> NameLatencies(LatencySamples samples) {
  std::vector<NamedLatency> named;
  const auto add = [&named](const char* name, const char* title, const char* meaning,
                            std::vector<double>& seconds) {
    if (!seconds.empty()) named.push_back({name, title, meaning, Summarize(std::move(seconds))});
  };
  add("ttft", "TTFT", "start to the first message with tokens", samples.ttft);
  add("itl", "ITL", "each gap between neighbouring messages with tokens", samples.gaps);
  add("tpot", "TPOT", "first message with tokens to the last, per token behind the first message",
      samples.tpot);
  add("e2e", "E2E", "start to the call's status", samples.e2e);
  add("queue", "Queue", "waiting in the server, as it told", samples.queue);
  // A closed loop's calls are never late.
  std::vector<double>& late = samples.lateness;
  if (std::all_of(late.begin(), late.end(), [](double seconds) { return seconds == 0; }))
    late.clear();
  add("lateness", "Lateness", "call begun behind its intended start: the client's own delay",
      samples.lateness);
  return named;
}

void CountSuccess(const RequestRecord& record, BenchSummary* summary) {
  ++summary->succeeded;
  summary->inputs += record.inputs;
  summary->prompt_tokens += record.prompt_tokens;
  summary->cached_prompt_tokens += record.cached_prompt_tokens;
  summary->output_tokens += record.output_tokens();
}

void CountFailure(const RequestRecord& record, BenchSummary* summary) {
  ++summary->failed;
  BenchSummary::Failure& failure = summary->failures[absl::StatusCodeToString(record.code)];
  if (failure.count++ == 0) failure.first_message = record.message;
}

}  // namespace

Percentiles Summarize(std::vector<double> values) {
  Percentiles out;
  if (values.empty()) return out;
  std::sort(values.begin(), values.end());
  out.count = static_cast<int64_t>(values.size());
  out.p50 = NearestRank(values, 50);
  out.p90 = NearestRank(values, 90);
  out.p95 = NearestRank(values, 95);
  out.p99 = NearestRank(values, 99);
  out.max = values.back();
  out.mean =
      std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  return out;
}

LatencySamples CollectLatencies(const std::vector<RequestRecord>& records) {
  LatencySamples samples;
  for (const RequestRecord& record : records) {
    if (!record.ok()) continue;
    AddIfTold(record.ttft(), &samples.ttft);
    AddIfTold(record.tpot(), &samples.tpot);
    AddIfTold(record.queue, &samples.queue);
    AddIfTold(record.e2e(), &samples.e2e);
    AddIfTold(record.lateness(), &samples.lateness);
    for (size_t i = 1; i < record.arrivals.size(); ++i)
      AddIfTold(record.arrivals[i].at - record.arrivals[i - 1].at, &samples.gaps);
  }
  return samples;
}

double BenchSummary::PerSecond(int64_t count) const {
  return seconds() > 0 ? static_cast<double>(count) / seconds() : 0;
}

double BenchSummary::slo_share() const {
  return finished() > 0 ? static_cast<double>(met_slo) / static_cast<double>(finished()) : 0;
}

BenchSummary SummarizeRun(const std::vector<RequestRecord>& records, const Slo& slo) {
  BenchSummary summary;
  summary.slo = slo;
  absl::Duration begin = absl::InfiniteDuration();
  for (const RequestRecord& record : records) {
    if (record.cut_off) {
      ++summary.cut_off;
      continue;
    }
    begin = std::min(begin, record.intended);
    summary.end = std::max(summary.end, record.end);
    if (record.ok()) {
      CountSuccess(record, &summary);
    } else {
      CountFailure(record, &summary);
    }
    if (slo.any() && slo.Met(record)) ++summary.met_slo;
  }
  if (summary.finished() > 0) summary.begin = begin;
  summary.latencies = NameLatencies(CollectLatencies(records));
  return summary;
}

}  // namespace penstock
