#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "cli/bench/report.h"

namespace penstock {
namespace {

constexpr double kLate = 0.010;  // seconds; a client that late no longer makes the load asked for

std::string Row(absl::string_view title, const Percentiles& seconds) {
  return absl::StrFormat("%-14s %9.2f %9.2f %9.2f %9.2f %9.2f %9.2f %9d\n", title,
                         seconds.p50 * 1e3, seconds.p90 * 1e3, seconds.p95 * 1e3, seconds.p99 * 1e3,
                         seconds.max * 1e3, seconds.mean * 1e3, seconds.count);
}

std::string Counts(const BenchReport& report) {
  const BenchSummary& summary = report.summary;
  std::string text = absl::StrFormat("%-14s %d succeeded, %d failed", "requests", summary.succeeded,
                                     summary.failed);
  if (summary.cut_off > 0) absl::StrAppend(&text, ", ", summary.cut_off, " cut off");
  absl::StrAppendFormat(&text, " in %.2f s", summary.seconds());
  if (report.warm_up > 0) absl::StrAppend(&text, " (", report.warm_up, " more to warm up)");
  return text + "\n";
}

std::string Throughput(const BenchReport& report) {
  const BenchSummary& summary = report.summary;
  std::string text =
      absl::StrFormat("%-14s %.2f requests/s", "throughput", summary.PerSecond(summary.succeeded));
  if (report.embed) {
    absl::StrAppendFormat(&text, ", %.2f inputs/s", summary.PerSecond(summary.inputs));
  } else {
    absl::StrAppendFormat(&text, ", %.1f output tokens/s",
                          summary.PerSecond(summary.output_tokens));
  }
  absl::StrAppendFormat(&text, ", %.1f tokens/s in all\n",
                        summary.PerSecond(summary.prompt_tokens + summary.output_tokens));
  absl::StrAppendFormat(&text, "%-14s %d prompt (%d cached), %d output\n", "tokens",
                        summary.prompt_tokens, summary.cached_prompt_tokens, summary.output_tokens);
  return text;
}

}  // namespace

std::string FormatText(const BenchReport& report) {
  const BenchSummary& summary = report.summary;
  std::string text = Counts(report) + Throughput(report);
  if (!summary.latencies.empty())
    absl::StrAppendFormat(&text, "\n%-14s %9s %9s %9s %9s %9s %9s %9s\n", "latency, ms", "p50",
                          "p90", "p95", "p99", "max", "mean", "count");
  for (const NamedLatency& latency : summary.latencies)
    absl::StrAppend(&text, Row(latency.title, latency.seconds));
  if (summary.slo.any())
    absl::StrAppendFormat(&text, "\n%-14s %.2f requests/s, %.1f %% of requests within %s\n",
                          "goodput", summary.PerSecond(summary.met_slo), summary.slo_share() * 100,
                          FormatSetting(summary.slo));
  for (const auto& [code, failure] : summary.failures)
    absl::StrAppendFormat(&text, "\n%-14s %d x %s; the first: %s\n", "failed", failure.count, code,
                          failure.first_message);
  for (const NamedLatency& latency : summary.latencies)
    if (absl::string_view(latency.name) == "lateness" && latency.seconds.p99 > kLate)
      absl::StrAppend(
          &text,
          "\nnote: this client began calls late itself (see Lateness; latencies count from "
          "when they were due)\n");
  return text;
}

namespace {

absl::Status WriteFile(const std::string& path, const std::string& text, std::ios::openmode mode) {
  std::ofstream file(path, std::ios::binary | mode);
  file << text;
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(path, ": cannot be written: ", std::strerror(errno)));
}

}  // namespace

absl::Status CheckReport(const std::string& path) { return WriteFile(path, "", std::ios::app); }

absl::Status WriteReport(const std::string& path, const std::string& text) {
  return WriteFile(path, text, std::ios::trunc);
}

}  // namespace penstock
