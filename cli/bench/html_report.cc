#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/bench/plot_axis.h"
#include "cli/bench/report.h"
#include "cli/bench/svg_plot.h"

namespace penstock {
namespace {

using Points = std::vector<std::pair<double, double>>;

constexpr size_t kMostCurvePoints = 400;
constexpr size_t kMostDots = 3000;
constexpr double kLeastMs = 1e-3;  // where logarithmic axes may begin

constexpr char kPageStyle[] = R"(
:root { color-scheme: light dark; --page: #fbfbfa; --card: #ffffff; --ink: #1b1b19; --muted: #66645e;
  --grid: #e7e6e2; --blue: #2a6fbb; --orange: #d9601a; --green: #1f8a5b; --violet: #8250c4;
  --gray: #c9c7c1; }
@media (prefers-color-scheme: dark) {
  :root { --page: #161615; --card: #1f1f1d; --ink: #f0efeb; --muted: #a3a19a; --grid: #34332f;
    --blue: #5a9fe6; --orange: #ee8246; --green: #42b883; --violet: #ac84e8; --gray: #5a5853; }
}
body { margin: 0 auto; max-width: 1520px; padding: 24px; background: var(--page); color: var(--ink);
  font: 14px/1.5 system-ui, sans-serif; }
h1 { font-size: 20px; margin: 0; } h2 { font-size: 15px; margin: 28px 0 8px; }
p { margin: 4px 0; color: var(--muted); }
.tiles, .plots { display: grid; gap: 12px; }
.tiles { grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); margin-top: 16px; }
.plots { grid-template-columns: repeat(auto-fit, minmax(min(560px, 100%), 1fr)); }
.tile, .card { background: var(--card); border: 1px solid var(--grid); border-radius: 8px; }
.tile { padding: 10px 14px; } .tile b { display: block; font-size: 20px; white-space: nowrap; }
.tile span { color: var(--muted); font-size: 12px; }
.card { padding: 8px; overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 3px 12px 3px 6px; text-align: right; border-bottom: 1px solid var(--grid); }
th { color: var(--muted); font-weight: 500; }
th:first-child, td:first-child, .last-words :last-child, .words td, .words th { text-align: left; }
)";

std::string Tile(absl::string_view value, absl::string_view title) {
  return absl::StrCat("<div class=\"tile\"><b>", EscapeXml(value), "</b><span>", EscapeXml(title),
                      "</span></div>");
}

// The share of values up to each, in percent, over milliseconds.
Points Cdf(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  Points points;
  const size_t count = seconds.size(), stride = count / kMostCurvePoints + 1;
  for (size_t i = 0; i < count; ++i)
    if (i % stride == 0 || i + 1 == count)
      points.emplace_back(std::max(kLeastMs, seconds[i] * 1e3),
                          100 * static_cast<double>(i + 1) / static_cast<double>(count));
  return points;
}

SvgPlot LatencyPlot(const BenchReport& report) {
  SvgPlot plot{"Latency distribution", "milliseconds (logarithmic)", "% of values up to it"};
  plot.log_x = true;
  plot.y_top = 100;
  LatencySamples samples = CollectLatencies(report.records);
  const auto add = [&plot](const char* name, std::vector<double>& seconds, int color) {
    if (!seconds.empty()) plot.series.push_back({name, Cdf(std::move(seconds)), color});
  };
  add("ITL", samples.gaps, 2);
  add("TPOT", samples.tpot, 3);
  add("TTFT", samples.ttft, 0);
  add("E2E", samples.e2e, 1);
  return plot;
}

SvgPlot ThroughputPlot(const BenchReport& report) {
  SvgPlot plot{"Throughput over time", "seconds since the start",
               report.embed ? "inputs per second" : "output tokens per second"};
  Points points;
  for (const LoadSeries::Bin& bin : report.series.bins)
    points.emplace_back(bin.middle(), report.embed ? bin.inputs_per_s : bin.output_tokens_per_s);
  plot.series.push_back({report.embed ? "inputs/s" : "output tokens/s", std::move(points), 0});
  return plot;
}

SvgPlot StartsPlot(const BenchReport& report) {
  SvgPlot plot{report.embed ? "E2E by start" : "TTFT by start", "start, seconds", "milliseconds"};
  plot.kind = SvgPlot::Kind::kDots;
  Points points;
  const size_t stride = report.records.size() / kMostDots + 1;
  for (size_t i = 0; i < report.records.size(); i += stride) {
    const RequestRecord& record = report.records[i];
    const std::optional<absl::Duration> time = report.embed ? record.e2e() : record.ttft();
    if (record.ok() && time)
      points.emplace_back(absl::ToDoubleSeconds(record.intended),
                          absl::ToDoubleMilliseconds(*time));
  }
  plot.series.push_back({report.embed ? "E2E, ms" : "TTFT, ms", std::move(points), 0});
  return plot;
}

Points Gauge(const BenchReport& report, const char* name) {
  Points points;
  for (const MetricsInterval& interval : report.server)
    if (const auto gauge = interval.gauges.find(name); gauge != interval.gauges.end())
      points.emplace_back(absl::ToDoubleSeconds(interval.end), gauge->second);
  return points;
}

SvgPlot RunningPlot(const BenchReport& report) {
  SvgPlot plot{"Requests over time", "seconds since the start", "requests"};
  Points calls;
  for (const LoadSeries::Bin& bin : report.series.bins)
    calls.emplace_back(bin.middle(), bin.running);
  plot.series.push_back({"in flight, client", std::move(calls), 0});
  if (Points points = Gauge(report, "running"); !points.empty())
    plot.series.push_back({"running, server", std::move(points), 2});
  if (Points points = Gauge(report, "waiting"); !points.empty())
    plot.series.push_back({"waiting, server", std::move(points), 1});
  return plot;
}

double Middle(const MetricsInterval& interval) {
  return absl::ToDoubleSeconds(interval.begin + interval.end) / 2;
}

void AddBatchPlot(const BenchReport& report, std::vector<SvgPlot>* plots) {
  Points points;
  for (const MetricsInterval& interval : report.server)
    if (interval.has_batch_size) points.emplace_back(Middle(interval), interval.batch_size);
  if (points.empty()) return;
  SvgPlot plot{"Batch size over time", "seconds since the start", "sequences per step, mean"};
  plot.series.push_back({"sequences per step", std::move(points), 0});
  plots->push_back(std::move(plot));
}

// Of "STAGE" or "REPLICA/STAGE".
std::string StageTitle(const std::string& stage) {
  const size_t slash = stage.find('/');
  if (slash == std::string::npos) return absl::StrCat("Time of stage ", stage);
  return absl::StrCat("Time of replica ", stage.substr(0, slash), ", stage ",
                      stage.substr(slash + 1));
}

void AddStagePlots(const BenchReport& report, std::vector<SvgPlot>* plots) {
  std::map<std::string, std::vector<SvgPlot::Series>> stages;
  for (const MetricsInterval& interval : report.server) {
    const double end = absl::ToDoubleSeconds(interval.end);
    for (const auto& [stage, share] : interval.stage_shares) {
      std::vector<SvgPlot::Series>& series = stages[stage];
      if (series.empty()) series = {{"busy", {}, 0}, {"bubble", {}, 1}, {"idle", {}, 4}};
      series[0].points.emplace_back(end, share.busy * 100);
      series[1].points.emplace_back(end, share.bubble * 100);
      series[2].points.emplace_back(end, share.idle * 100);
    }
  }
  for (auto& [stage, series] : stages) {
    SvgPlot plot{StageTitle(stage), "seconds since the start", "% of time"};
    plot.kind = SvgPlot::Kind::kStacked;
    plot.y_top = 100;
    plot.series = std::move(series);
    plots->push_back(std::move(plot));
  }
}

bool IsHeadline(const NamedLatency& latency) {
  for (const char* name : {"ttft", "itl", "e2e"})
    if (latency.name == absl::string_view(name)) return true;
  return false;
}

std::string LatencyTile(const NamedLatency& latency) {
  const bool long_times = latency.seconds.p99 >= 10;  // in seconds, then
  const double scale = long_times ? 1 : 1e3;
  return Tile(absl::StrCat(FormatValue(latency.seconds.p50 * scale), " / ",
                           FormatValue(latency.seconds.p99 * scale)),
              absl::StrCat(latency.title, " p50 / p99, ", long_times ? "s" : "ms"));
}

std::string Tiles(const BenchReport& report) {
  const BenchSummary& summary = report.summary;
  std::string html = "<div class=\"tiles\">";
  absl::StrAppend(&html, Tile(FormatValue(summary.PerSecond(summary.succeeded)), "requests/s"));
  absl::StrAppend(
      &html, report.embed
                 ? Tile(FormatValue(summary.PerSecond(summary.inputs)), "inputs/s")
                 : Tile(FormatValue(summary.PerSecond(summary.output_tokens)), "output tokens/s"));
  for (const NamedLatency& latency : summary.latencies)
    if (IsHeadline(latency)) absl::StrAppend(&html, LatencyTile(latency));
  if (summary.slo.any())
    absl::StrAppend(&html, Tile(absl::StrFormat("%.1f %%", summary.slo_share() * 100),
                                absl::StrCat("within ", FormatSetting(summary.slo))));
  absl::StrAppend(&html, Tile(absl::StrCat(summary.succeeded, " / ", summary.failed),
                              "requests succeeded / failed"));
  return html + "</div>\n";
}

std::string LatencyTable(const BenchReport& report) {
  std::string html =
      "<h2>Latency, ms</h2><div class=\"card\"><table "
      "class=\"last-words\"><tr><th></th><th>p50</th><th>p90</th><th>p95"
      "</th><th>p99</th><th>max</th><th>mean</th><th>count</th><th>what is counted</th></tr>\n";
  for (const NamedLatency& latency : report.summary.latencies) {
    const Percentiles& s = latency.seconds;
    absl::StrAppend(&html, "<tr><td>", latency.title, "</td>");
    for (double value : {s.p50, s.p90, s.p95, s.p99, s.max, s.mean})
      absl::StrAppendFormat(&html, "<td>%.2f</td>", value * 1e3);
    absl::StrAppend(&html, "<td>", s.count, "</td><td>", EscapeXml(latency.meaning),
                    "</td></tr>\n");
  }
  return html + "</table></div>\n";
}

std::string FailureTable(const BenchReport& report) {
  if (report.summary.failures.empty()) return "";
  std::string html =
      "<h2>Failures</h2><div class=\"card\"><table class=\"words\"><tr><th>code</th><th>count</th>"
      "<th>the first</th></tr>\n";
  for (const auto& [code, failure] : report.summary.failures)
    absl::StrAppend(&html, "<tr><td>", EscapeXml(code), "</td><td>", failure.count, "</td><td>",
                    EscapeXml(failure.first_message), "</td></tr>\n");
  return html + "</table></div>\n";
}

std::string SettingRows(const BenchReport& report) {
  std::string html = "<h2>Settings</h2><div class=\"card\"><table class=\"words\">\n";
  for (const auto& [name, value] : report.settings)
    if (!value.empty())
      absl::StrAppend(&html, "<tr><td>", EscapeXml(name), "</td><td>", EscapeXml(value),
                      "</td></tr>\n");
  return html + "</table></div>\n";
}

}  // namespace

std::string FormatHtml(const BenchReport& report) {
  std::vector<SvgPlot> plots = {LatencyPlot(report), ThroughputPlot(report), RunningPlot(report),
                                StartsPlot(report)};
  AddBatchPlot(report, &plots);
  AddStagePlots(report, &plots);
  const BenchSummary& summary = report.summary;
  std::string html = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>"
      "<meta name=\"viewport\" content=\"width=device-width\"/><title>penstock "
      "bench</title><style>",
      kPageStyle, kPlotStyle, "</style></head>\n<body><h1>penstock bench</h1><p>",
      absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", report.started, absl::UTCTimeZone()), ", ",
      absl::StrFormat("%.1f s", summary.seconds()), ", ", summary.prompt_tokens, " prompt tokens (",
      summary.cached_prompt_tokens, " cached), ", summary.output_tokens, " output tokens</p>\n",
      Tiles(report), "<h2>Over time</h2><div class=\"plots\">\n");
  for (const SvgPlot& plot : plots)
    if (plot.points() > 0)
      absl::StrAppend(&html, "<div class=\"card\">", plot.Render(), "</div>\n");
  absl::StrAppend(&html, "</div>\n");
  if (report.server.empty())
    absl::StrAppend(&html,
                    "<p>With --metrics URL there are plots of batch size and of each "
                    "stage's busy, bubble and idle time.</p>\n");
  return absl::StrCat(html, LatencyTable(report), FailureTable(report), SettingRows(report),
                      "</body></html>\n");
}

}  // namespace penstock
