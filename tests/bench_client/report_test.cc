#include "cli/bench/report.h"

#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/bench/plot_axis.h"
#include "cli/bench/svg_plot.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/bench_client/records.h"
#include "tests/bench_client/xml_check.h"

namespace penstock {
namespace {

BenchReport SampleReport() {
  BenchReport report;
  report.settings = {{"model", "a \"<&>\" name"}, {"rate", ""}};
  report.records = SampleRecords();
  Slo slo;
  slo.e2e = absl::Milliseconds(300);
  report.summary = SummarizeRun(report.records, slo);
  report.series = BuildLoadSeries(report.records, report.summary);
  for (int i = 0; i < 3; ++i) {
    MetricsInterval interval;
    interval.begin = absl::Seconds(i);
    interval.end = absl::Seconds(i + 1);
    interval.gauges = {{"running", 3}, {"waiting", 1}};
    interval.has_batch_size = true;
    interval.batch_size = 2.5;
    interval.stage_shares["0"] = {0.5, 0.25, 0.25};
    interval.stage_shares["1"] = {0.6, 0.4, 0};
    report.server.push_back(interval);
  }
  return report;
}

// Of each plot in the page.
std::vector<int> PlotPoints(const std::string& html) {
  std::vector<int> points;
  const std::vector<std::string> parts = absl::StrSplit(html, "data-points=\"");
  for (size_t i = 1; i < parts.size(); ++i) points.push_back(std::stoi(parts[i]));
  return points;
}

TEST(TextReportTest, HasATableAndWhatFailed) {
  const std::string text = FormatText(SampleReport());
  EXPECT_TRUE(absl::StrContains(text, "2 succeeded, 2 failed, 1 cut off in 1.00 s")) << text;
  EXPECT_TRUE(absl::StrContains(text, "7.0 output tokens/s")) << text;
  EXPECT_TRUE(absl::StrContains(text, "2 x UNAVAILABLE; the first: gone")) << text;
  EXPECT_TRUE(absl::StrContains(text, "1.00 requests/s, 25.0 % of requests within e2e=300ms"))
      << text;
  for (const char* title : {"TTFT", "ITL", "TPOT", "E2E", "Queue"})
    EXPECT_TRUE(absl::StrContains(text, absl::StrCat("\n", title, " "))) << title;
}

TEST(JsonReportTest, IsValidAndComplete) {
  BenchReport report = SampleReport();
  report.summary.failures["UNAVAILABLE"].first_message = "not \xff UTF-8";
  const nlohmann::json json = nlohmann::json::parse(FormatJson(report));
  EXPECT_EQ(json.at("settings").at("model"), "a \"<&>\" name");
  EXPECT_EQ(json.at("requests").at("succeeded"), 2);
  EXPECT_EQ(json.at("failures").at("UNAVAILABLE").at("count"), 2);
  EXPECT_DOUBLE_EQ(json.at("throughput").at("output_tokens_per_s"), 7);
  EXPECT_DOUBLE_EQ(json.at("latency_seconds").at("ttft").at("p50"), 0.1);
  EXPECT_EQ(json.at("slo").at("met"), 1);
  EXPECT_EQ(json.at("series").size(), report.series.bins.size());
  EXPECT_DOUBLE_EQ(json.at("server").at(0).at("stages").at("1").at("bubble"), 0.4);
  // Nothing measured is valid, too.
  EXPECT_EQ(nlohmann::json::parse(FormatJson(BenchReport())).at("slo"), nullptr);
}

TEST(CsvReportTest, HasARowPerRequestInTheirOrder) {
  BenchReport report = SampleReport();
  std::swap(report.records[0], report.records[3]);
  std::vector<std::string> lines = absl::StrSplit(FormatCsv(report), '\n');
  ASSERT_EQ(lines.size(), 7u);  // heading, 5 rows, and the end of the last line
  EXPECT_TRUE(absl::StartsWith(lines[0], "index,code,intended,"));
  EXPECT_EQ(lines[1],
            "0,OK,0.100000,0.130000,0.200000,0.310000,1,10,0,5,0.100000,0.025000,0.060000,0.210000,"
            "0.005000,1,");
  EXPECT_TRUE(absl::StartsWith(lines[4], "3,UNAVAILABLE,0.300000,0.300000,,1.100000,")) << lines[4];
  EXPECT_TRUE(absl::EndsWith(lines[4], ",0,\"gone, \"\"really\"\" <&>\"")) << lines[4];
  EXPECT_TRUE(absl::StartsWith(lines[5], "4,CUT_OFF,"));
}

TEST(HtmlReportTest, IsWellFormedSelfContainedAndEveryPlotHasData) {
  const std::string html = FormatHtml(SampleReport());
  EXPECT_EQ(XmlProblem(html), "");
  for (const char* outside : {"http://", "https://", "<script", "<link", "@import", "url("})
    EXPECT_FALSE(absl::StrContains(html, outside)) << outside;
  const std::vector<int> points = PlotPoints(html);
  EXPECT_EQ(points.size(), 7u);  // latency, throughput, requests, starts, batch, two stages
  for (int count : points) EXPECT_GT(count, 0);
  for (const char* title : {"Latency distribution", "Throughput over time", "Requests over time",
                            "TTFT by start", "Batch size over time", "Time of stage 1"})
    EXPECT_TRUE(absl::StrContains(html, title)) << title;
  EXPECT_TRUE(absl::StrContains(html, "prefers-color-scheme: dark"));
  EXPECT_TRUE(absl::StrContains(html, "gone, &quot;really&quot; &lt;&amp;&gt;"));
}

TEST(HtmlReportTest, NothingMeasuredIsAPageWithoutPlots) {
  const std::string html = FormatHtml(BenchReport());
  EXPECT_EQ(XmlProblem(html), "");
  EXPECT_TRUE(PlotPoints(html).empty());
}

TEST(HtmlReportTest, EmbeddingsHaveTheirOwnPlots) {
  BenchReport report = SampleReport();
  report.embed = true;
  const std::string html = FormatHtml(report);
  EXPECT_EQ(XmlProblem(html), "");
  EXPECT_TRUE(absl::StrContains(html, "inputs per second"));
  EXPECT_TRUE(absl::StrContains(html, "E2E by start"));
}

TEST(SvgPlotTest, OddDataStaysWithinTheFrame) {
  SvgPlot plot{"one & only", "x", "y"};
  plot.series.push_back({"a", {{5, 5}}, 0});
  EXPECT_EQ(XmlProblem(plot.Render()), "");
  plot.log_x = true;
  plot.series.push_back({"b", {{1e-3, 0}, {1e9, 1e12}}, 1});
  EXPECT_EQ(XmlProblem(plot.Render()), "");
  EXPECT_FALSE(absl::StrContains(plot.Render(), "nan"));
  EXPECT_FALSE(absl::StrContains(plot.Render(), "inf"));
}

TEST(PlotAxisTest, TicksAreRoundAndInside) {
  const PlotAxis linear = PlotAxis::Linear(0, 137, 0, 100);
  std::vector<std::string> labels;
  for (const PlotAxis::Tick& tick : linear.ticks()) {
    labels.push_back(tick.label);
    EXPECT_GE(tick.place, 0);
    EXPECT_LE(tick.place, 100);
  }
  EXPECT_EQ(labels, (std::vector<std::string>{"0", "50", "100"}));
  const PlotAxis decades = PlotAxis::Logarithmic(1, 100, 0, 100);
  EXPECT_NEAR(decades.Place(10), 50, 1e-9);
  EXPECT_EQ(decades.ticks().size(), 7u);  // 1 2 5 10 20 50 100
  EXPECT_EQ(FormatValue(12345), "12.35k");
  EXPECT_EQ(FormatValue(0.012345), "0.0123");
}

TEST(WriteReportTest, ErrorsNameThePath) {
  const std::string path = absl::StrCat(testing::TempDir(), getpid(), "_report.json");
  EXPECT_TRUE(WriteReport(path, "{}").ok());
  std::remove(path.c_str());
  EXPECT_TRUE(
      absl::StrContains(WriteReport("/no/such/file", "x").message(), "/no/such/file: cannot"));
}

}  // namespace
}  // namespace penstock
