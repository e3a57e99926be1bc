// Reports for programs: JSON and CSV.

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "cli/bench/report.h"
#include "nlohmann/json.hpp"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const Percentiles& values) {
  return {{"count", values.count}, {"p50", values.p50}, {"p90", values.p90},  {"p95", values.p95},
          {"p99", values.p99},     {"max", values.max}, {"mean", values.mean}};
}

Json LatenciesJson(const BenchSummary& summary) {
  Json json = Json::object();
  for (const NamedLatency& latency : summary.latencies)
    json[latency.name] = ToJson(latency.seconds);
  return json;
}

Json FailuresJson(const BenchSummary& summary) {
  Json json = Json::object();
  for (const auto& [code, failure] : summary.failures)
    json[code] = {{"count", failure.count}, {"first_message", failure.first_message}};
  return json;
}

Json SeriesJson(const LoadSeries& series) {
  Json json = Json::array();
  for (const LoadSeries::Bin& bin : series.bins)
    json.push_back({{"begin", bin.begin},
                    {"end", bin.end},
                    {"output_tokens_per_s", bin.output_tokens_per_s},
                    {"inputs_per_s", bin.inputs_per_s},
                    {"running", bin.running}});
  return json;
}

Json ServerJson(const std::vector<MetricsInterval>& intervals) {
  Json json = Json::array();
  for (const MetricsInterval& interval : intervals) {
    Json stages = Json::object();
    for (const auto& [stage, share] : interval.stage_shares)
      stages[stage] = {{"busy", share.busy}, {"bubble", share.bubble}, {"idle", share.idle}};
    json.push_back({{"begin", absl::ToDoubleSeconds(interval.begin)},
                    {"end", absl::ToDoubleSeconds(interval.end)},
                    {"gauges", interval.gauges},
                    {"batch_size", interval.batch_size},
                    {"stages", stages}});
  }
  return json;
}

Json SloJson(const BenchSummary& summary) {
  if (!summary.slo.any()) return nullptr;
  return {{"objectives", FormatSetting(summary.slo)},
          {"met", summary.met_slo},
          {"share", summary.slo_share()},
          {"goodput_requests_per_s", summary.PerSecond(summary.met_slo)}};
}

std::string Seconds(const std::optional<absl::Duration>& time) {
  return time ? absl::StrFormat("%.6f", absl::ToDoubleSeconds(*time)) : "";
}

// Quoted where CSV (RFC 4180) wants it.
std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

std::string CsvRow(const RequestRecord& record, const Slo& slo) {
  std::optional<absl::Duration> first_token;
  if (!record.arrivals.empty()) first_token = record.arrivals.front().at;
  const std::string code = record.cut_off ? "CUT_OFF" : absl::StatusCodeToString(record.code);
  const std::string met = slo.any() ? (slo.Met(record) ? "1" : "0") : "";
  return absl::StrJoin(
      {absl::StrCat(record.index), code, Seconds(record.intended), Seconds(record.sent),
       Seconds(first_token), Seconds(record.end), absl::StrCat(record.inputs),
       absl::StrCat(record.prompt_tokens), absl::StrCat(record.cached_prompt_tokens),
       absl::StrCat(record.output_tokens()), Seconds(record.ttft()), Seconds(record.tpot()),
       Seconds(record.longest_gap()), Seconds(record.e2e()), Seconds(record.queue), met,
       CsvField(record.message)},
      ",");
}

}  // namespace

std::string FormatJson(const BenchReport& report) {
  const BenchSummary& summary = report.summary;
  Json json;
  for (const auto& [name, value] : report.settings) json["settings"][name] = value;
  json["started"] = absl::FormatTime(absl::RFC3339_sec, report.started, absl::UTCTimeZone());
  json["seconds"] = summary.seconds();
  json["requests"] = {{"succeeded", summary.succeeded},
                      {"failed", summary.failed},
                      {"cut_off", summary.cut_off},
                      {"warm_up", report.warm_up}};
  json["inputs"] = summary.inputs;
  json["tokens"] = {{"prompt", summary.prompt_tokens},
                    {"cached_prompt", summary.cached_prompt_tokens},
                    {"output", summary.output_tokens}};
  json["throughput"] = {
      {"requests_per_s", summary.PerSecond(summary.succeeded)},
      {"inputs_per_s", summary.PerSecond(summary.inputs)},
      {"output_tokens_per_s", summary.PerSecond(summary.output_tokens)},
      {"total_tokens_per_s", summary.PerSecond(summary.prompt_tokens + summary.output_tokens)}};
  json["latency_seconds"] = LatenciesJson(summary);
  json["failures"] = FailuresJson(summary);
  json["slo"] = SloJson(summary);
  json["series"] = SeriesJson(report.series);
  json["server"] = ServerJson(report.server);
  // A server's message may be any bytes.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string FormatCsv(const BenchReport& report) {
  std::vector<const RequestRecord*> ordered;
  for (const RequestRecord& record : report.records) ordered.push_back(&record);
  std::sort(ordered.begin(), ordered.end(),
            [](const RequestRecord* a, const RequestRecord* b) { return a->index < b->index; });
  std::string text =
      "index,code,intended,sent,first_token,end,inputs,prompt_tokens,cached_prompt_tokens,"
      "output_tokens,ttft,tpot,longest_gap,e2e,queue,met_slo,message\n";
  for (const RequestRecord* record : ordered)
    absl::StrAppend(&text, CsvRow(*record, report.summary.slo), "\n");
  return text;
}

}  // namespace penstock
