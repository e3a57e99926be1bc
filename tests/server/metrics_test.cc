#include "server/metrics.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/server/serving_fixture.h"

namespace penstock {
namespace {

// Prometheus sorts labels by name.
std::string Name(const std::string& name, const std::string& labels = "") {
  const std::string model = "model=\"letters\"";
  const std::string all = labels.empty()   ? model
                          : labels < model ? absl::StrCat(labels, ",", model)
                                           : absl::StrCat(model, ",", labels);
  return absl::StrCat("penstock_", name, "{", all, "}");
}

TEST(MetricsTest, CountsCallsTokensAndEnds) {
  Serving serving;
  const auto stub = serving.NewStub();
  EXPECT_TRUE(Generate(*stub, TextRequest("a", 5)).status.ok());
  EXPECT_TRUE(Generate(*stub, TextRequest("X", 0)).status.ok());
  v1::GenerateRequest two = TextRequest("a", 2);
  two.set_n(2);
  EXPECT_TRUE(Generate(*stub, two).status.ok());
  EXPECT_FALSE(Generate(*stub, TextRequest("", 1)).status.ok());

  // A call is counted a moment after its client has heard.
  const auto calls = [&](const std::string& code) {
    return serving.Metric(
        Name("requests_total", absl::StrCat("code=\"", code, "\",method=\"Generate\"")));
  };
  EXPECT_TRUE(Eventually([&] { return calls("OK") == 3 && calls("INVALID_ARGUMENT") == 1; }))
      << serving.metrics->Text();
  EXPECT_EQ(serving.Metric(Name("finished_total", "reason=\"length\"")), 3);
  EXPECT_EQ(serving.Metric(Name("finished_total", "reason=\"stop\"")), 1);
  EXPECT_EQ(serving.Metric(Name("finished_total", "reason=\"error\"")), 0);
  EXPECT_EQ(serving.Metric(Name("generation_tokens_total")), 5 + 3 + 2 * 2);
  EXPECT_EQ(serving.Metric(Name("prompt_tokens_total")), 4 * 2);
  EXPECT_EQ(serving.Metric(Name("time_to_first_token_seconds_count")), 4);  // one per sequence
  EXPECT_EQ(serving.Metric(Name("inter_token_seconds_count")), 4 + 2 + 1 + 1);
  EXPECT_EQ(serving.Metric(Name("queue_seconds_count")), 4);
  EXPECT_EQ(serving.Metric(Name("request_duration_seconds_count", "method=\"Generate\"")), 4);
  EXPECT_GT(serving.Metric(Name("batch_size_count")), 0);
  EXPECT_EQ(serving.Metric(Name("kv_cache_blocks", "state=\"used\"")), 0);
}

TEST(MetricsTest, ObservedTimesAreThoseThatPassed) {
  Serving serving;
  const auto stub = serving.NewStub();
  serving.executor.set_step_delay(absl::Milliseconds(60));
  EXPECT_TRUE(Generate(*stub, TextRequest("a", 11)).status.ok());
  EXPECT_TRUE(Eventually([&] {
    return serving.Metric(Name("time_to_first_token_seconds_count")) == 1 &&
           serving.Metric(Name("request_duration_seconds_count", "method=\"Generate\"")) == 1;
  }));
  // A busy machine adds to the delay; nothing takes away from it.
  const double first = serving.Metric(Name("time_to_first_token_seconds_sum"));
  EXPECT_GE(first, 0.055);
  EXPECT_LT(first, 0.6);
  EXPECT_EQ(serving.Metric(Name("inter_token_seconds_count")), 10);
  const double between = serving.Metric(Name("inter_token_seconds_sum")) / 10;
  EXPECT_GE(between, 0.055);
  EXPECT_LT(between, 0.6);
  EXPECT_GE(serving.Metric(Name("request_duration_seconds_sum", "method=\"Generate\"")),
            first + between * 9);
  EXPECT_EQ(serving.Metric("penstock_inter_token_seconds_bucket{model=\"letters\",le=\"0.001\"}"),
            0);
}

TEST(MetricsTest, ShowsStagesAndTheProcess) {
  Serving serving;
  EXPECT_EQ(serving.Metric("penstock_stage_busy_seconds_total{model=\"letters\",stage=\"0\"}"), 4);
  EXPECT_EQ(serving.Metric("penstock_stage_bubble_seconds_total{model=\"letters\",stage=\"0\"}"),
            2);
  EXPECT_EQ(serving.Metric("penstock_stage_idle_seconds_total{model=\"letters\",stage=\"0\"}"), 4);
  EXPECT_EQ(serving.Metric("penstock_stage_transfer_seconds_total{model=\"letters\",stage=\"0\"}"),
            1);
  EXPECT_GT(serving.Metric("process_resident_memory_bytes"), 1e6);
  EXPECT_GT(serving.Metric("process_open_fds"), 3);
  EXPECT_NEAR(serving.Metric("process_start_time_seconds"),
              absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()), 3600);
  serving.metrics->WatchStages(nullptr);
  EXPECT_EQ(serving.Metric("penstock_stage_busy_seconds_total{model=\"letters\",stage=\"0\"}"), -1);
}

TEST(MetricsTest, WhatNeverHappenedIsZeroNotAbsent) {
  const auto metrics = *Metrics::Create({.listen = "off", .model = "letters"});
  const std::string text = metrics->Text();
  for (const std::string& line :
       {Name("requests_total", "code=\"UNAVAILABLE\",method=\"Generate\""),
        Name("finished_total", "reason=\"cancelled\""),
        Name("preemptions_total", "kind=\"recompute\""), Name("requests_waiting"),
        std::string("penstock_queue_seconds_bucket{model=\"letters\",le=\"2560\"}"),
        std::string("penstock_time_to_first_token_seconds_bucket{model=\"letters\",le=\"2560\"}")})
    EXPECT_NE(text.find(line + " 0\n"), std::string::npos) << line << "\n" << text;
  EXPECT_EQ(metrics->port(), 0);
}

TEST(MetricsTest, ListensAndNamesAnAddressInUse) {
  const auto first = Metrics::Create({.listen = "127.0.0.1:0", .model = "letters"});
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string address = absl::StrCat("127.0.0.1:", (*first)->port());
  const auto second = Metrics::Create({.listen = address, .model = "letters"});
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().message().find(address), std::string::npos) << second.status();
}

}  // namespace
}  // namespace penstock
