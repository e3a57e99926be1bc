#include "cli/bench/summary.h"

#include <algorithm>
#include <string>
#include <vector>

#include "cli/bench/load_series.h"
#include "cli/bench/metrics_text.h"
#include "gtest/gtest.h"
#include "tests/bench_client/records.h"

namespace penstock {
namespace {

TEST(PercentilesTest, AreNearestRanks) {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  const Percentiles hundred = Summarize(values);
  EXPECT_EQ(hundred.p50, 50);
  EXPECT_EQ(hundred.p90, 90);
  EXPECT_EQ(hundred.p95, 95);
  EXPECT_EQ(hundred.p99, 99);
  EXPECT_EQ(hundred.max, 100);
  EXPECT_DOUBLE_EQ(hundred.mean, 50.5);
  EXPECT_EQ(hundred.count, 100);
  EXPECT_EQ(Summarize({3, 1, 2}).p50, 2);
  EXPECT_EQ(Summarize({3, 1, 2}).p99, 3);
  EXPECT_EQ(Summarize({5}).p50, 5);
  EXPECT_EQ(Summarize({}).count, 0);
}

TEST(RequestRecordTest, LatenciesCountFromTheIntendedStart) {
  // Due at 100 ms, sent at 130, tokens at 200 (1), 260 (3), 300 (1).
  const RequestRecord record = MakeRecord(100, 130, {{200, 1}, {260, 3}, {300, 1}}, 310);
  EXPECT_EQ(*record.ttft(), absl::Milliseconds(100));
  EXPECT_EQ(record.e2e(), absl::Milliseconds(210));
  EXPECT_EQ(record.lateness(), absl::Milliseconds(30));
  EXPECT_EQ(*record.tpot(), absl::Milliseconds(25));  // 100 ms for 4 tokens
  EXPECT_EQ(*record.longest_gap(), absl::Milliseconds(60));
  EXPECT_EQ(record.output_tokens(), 5);
  const RequestRecord single = MakeRecord(0, 0, {{10, 4}}, 11);
  EXPECT_FALSE(single.tpot());
  EXPECT_FALSE(single.longest_gap());
  EXPECT_FALSE(MakeRecord(0, 0, {}, 11).ttft());
}

const NamedLatency* Find(const BenchSummary& summary, const std::string& name) {
  for (const NamedLatency& latency : summary.latencies)
    if (latency.name == name) return &latency;
  return nullptr;
}

TEST(SummaryTest, CountsSuccessesFailuresAndWhatWasCutOff) {
  std::vector<RequestRecord> records = SampleRecords();
  const BenchSummary summary = SummarizeRun(records, {});
  EXPECT_EQ(summary.succeeded, 2);
  EXPECT_EQ(summary.failed, 2);
  EXPECT_EQ(summary.cut_off, 1);
  // From the first intended start, 100 ms, to the last end that was not cut off, 1100 ms.
  EXPECT_DOUBLE_EQ(summary.seconds(), 1.0);
  EXPECT_EQ(summary.output_tokens, 7);  // the failed request's token is not counted
  EXPECT_EQ(summary.prompt_tokens, 20);
  EXPECT_DOUBLE_EQ(summary.PerSecond(summary.output_tokens), 7);
  ASSERT_EQ(summary.failures.size(), 1u);
  EXPECT_EQ(summary.failures.at("UNAVAILABLE").count, 2);
  EXPECT_EQ(summary.failures.at("UNAVAILABLE").first_message, "gone, \"really\" <&>");
  EXPECT_EQ(Find(summary, "ttft")->seconds.count, 2);
  EXPECT_EQ(Find(summary, "itl")->seconds.count, 3);  // each gap once
  EXPECT_EQ(Find(summary, "queue")->seconds.count, 1);
}

TEST(SummaryTest, NothingIsNoDivisionByZero) {
  const BenchSummary summary = SummarizeRun({}, {});
  EXPECT_EQ(summary.seconds(), 0);
  EXPECT_EQ(summary.PerSecond(5), 0);
  EXPECT_EQ(summary.slo_share(), 0);
  EXPECT_TRUE(summary.latencies.empty());
  EXPECT_TRUE(BuildLoadSeries({}, summary).bins.empty());
}

TEST(SloTest, ReadsTimesAndRefusesTheRest) {
  Slo slo;
  ASSERT_TRUE(ParseSetting("ttft=200ms,itl=50ms,e2e=2s,tpot=1.5ms", &slo).ok());
  EXPECT_EQ(*slo.ttft, absl::Milliseconds(200));
  EXPECT_EQ(*slo.tpot, absl::Microseconds(1500));
  EXPECT_EQ(FormatSetting(slo), "ttft=200ms,itl=50ms,tpot=1.5ms,e2e=2s");
  for (const char* text : {"", "ttft", "ttft=", "ttft=200", "ttft=-1s", "ttft=inf", "latency=1s",
                           "ttft=1s,", "ttft=1s,ttft=2s", "ttft=0"})
    EXPECT_FALSE(ParseSetting(text, &slo).ok()) << text;
}

TEST(SloTest, EachTimeMustBeKept) {
  const RequestRecord record = MakeRecord(100, 130, {{200, 1}, {260, 3}, {300, 1}}, 310);
  const auto met = [&record](const char* text) {
    Slo slo;
    EXPECT_TRUE(ParseSetting(text, &slo).ok());
    return slo.Met(record);
  };
  EXPECT_TRUE(met("ttft=100ms,itl=60ms,tpot=25ms,e2e=210ms"));
  EXPECT_FALSE(met("ttft=99ms"));
  EXPECT_FALSE(met("itl=59ms"));
  EXPECT_FALSE(met("tpot=24ms"));
  EXPECT_FALSE(met("e2e=209ms"));
  Slo slo;
  slo.e2e = absl::Seconds(10);
  std::vector<RequestRecord> records = SampleRecords();
  const BenchSummary summary = SummarizeRun(records, slo);
  EXPECT_EQ(summary.met_slo, 2);  // failed ones have not met it
  EXPECT_DOUBLE_EQ(summary.slo_share(), 0.5);
}

TEST(LoadSeriesTest, BinsHoldAllTokensAndTheTimeInFlight) {
  const std::vector<RequestRecord> records = SampleRecords();
  const BenchSummary summary = SummarizeRun(records, {});
  const LoadSeries series = BuildLoadSeries(records, summary);
  ASSERT_FALSE(series.bins.empty());
  double tokens = 0, inputs = 0;
  for (const LoadSeries::Bin& bin : series.bins) {
    EXPECT_GT(bin.end, bin.begin);
    tokens += bin.output_tokens_per_s * (bin.end - bin.begin);
    inputs += bin.inputs_per_s * (bin.end - bin.begin);
  }
  EXPECT_NEAR(tokens, 9, 1e-9);  // also of failed and cut off requests
  EXPECT_NEAR(inputs, 2, 1e-9);
  EXPECT_NEAR(series.bins.front().begin, 0.1, 1e-9);
  EXPECT_NEAR(series.bins.back().end, 1.1, 1e-9);
  EXPECT_NEAR(series.bins.back().running, 2, 1e-9);  // the last to end, and the one cut off later
}

TEST(MetricsTextTest, ReadsNamesLabelsAndValues) {
  const std::vector<MetricValue> values = ParseMetricsText(
      "# HELP a b\n# TYPE a gauge\na 1.5\nb{x=\"1\",y=\"q\\\"\\\\\\n}\"} -2e3 1700000000\n"
      "broken{x=\"1\nempty\nc{} 7\nd NaN\n");
  ASSERT_EQ(values.size(), 4u);
  EXPECT_EQ(values[0].name, "a");
  EXPECT_EQ(values[0].value, 1.5);
  EXPECT_EQ(values[1].labels.at("y"), "q\"\\\n}");
  EXPECT_EQ(values[1].value, -2000);
  EXPECT_EQ(values[2].name, "c");
}

MetricsSample Sample(int seconds, const std::string& text) {
  return MakeMetricsSample(absl::Seconds(seconds), ParseMetricsText(text));
}

std::string Stages(double busy, double bubble, double idle) {
  const auto line = [](const char* name, double value) {
    return std::string("penstock_stage_") + name + "_seconds_total{model=\"m\",stage=\"1\"} " +
           std::to_string(value) + "\n";
  };
  return line("busy", busy) + line("bubble", bubble) + line("idle", idle);
}

TEST(MetricsTextTest, IntervalsAreDifferences) {
  const std::vector<MetricsInterval> intervals = BuildIntervals(
      {Sample(1, Stages(10, 5, 100) + "penstock_batch_size_sum 40\n"
                                      "penstock_step_seconds_count 10\n"),
       Sample(2, Stages(10.5, 5.3, 100.2) + "penstock_batch_size_sum{phase=\"prefill\"} 20\n"
                                            "penstock_batch_size_sum{phase=\"decode\"} 80\n"
                                            "penstock_step_seconds_count 15\n"
                                            "penstock_requests_running{model=\"m\"} 9\n"),
       Sample(3, Stages(0.1, 0, 0.2))});  // started anew
  ASSERT_EQ(intervals.size(), 2u);
  EXPECT_DOUBLE_EQ(intervals[0].batch_size, 12);
  EXPECT_EQ(intervals[0].gauges.at("running"), 9);
  const MetricsSample::Stage& share = intervals[0].stage_shares.at("1");
  EXPECT_NEAR(share.busy, 0.5, 1e-6);
  EXPECT_NEAR(share.bubble, 0.3, 1e-6);
  EXPECT_NEAR(share.idle, 0.2, 1e-6);
  EXPECT_TRUE(intervals[1].stage_shares.empty());
}

}  // namespace
}  // namespace penstock
