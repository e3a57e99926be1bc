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
  EXPECT_GT(serving.Metric(Name("batch_size_count", "phase=\"decode\"")), 0);
  EXPECT_EQ(serving.Metric(Name("request_generation_tokens_sum")), 5 + 3 + 2 * 2);
  EXPECT_EQ(
      serving.Metric("penstock_kv_cache_blocks{model=\"letters\",replica=\"0\",state=\"used\"}"),
      0);
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
  const auto stage = [&](const std::string& what) {
    return serving.Metric(absl::StrCat(
        "penstock_stage_", what, "_seconds_total{model=\"letters\",replica=\"0\",stage=\"0\"}"));
  };
  EXPECT_EQ(stage("busy"), 4);
  EXPECT_EQ(stage("bubble"), 2);
  EXPECT_EQ(stage("idle"), 4);
  EXPECT_EQ(stage("transfer"), 1);
  EXPECT_GT(serving.Metric("process_resident_memory_bytes"), 1e6);
  EXPECT_GT(serving.Metric("process_open_fds"), 3);
  EXPECT_NEAR(serving.Metric("process_start_time_seconds"),
              absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()), 3600);
  serving.metrics->WatchStages(nullptr);
  EXPECT_EQ(stage("busy"), -1);
}

// Reports made by hand, whose times and counts are exact.
class Counted : public testing::Test {
 protected:
  double Metric(const std::string& name_and_labels) const {
    return ValueOf(metrics->Text(), name_and_labels);
  }
  FinishReport Finished(int32_t prompt, int32_t output) const {
    FinishReport report;
    report.reason = FinishReason::kLength;
    report.prompt_tokens = prompt;
    report.output_tokens = output;
    report.times.arrival = begin;
    report.times.first_scheduled = begin + absl::Seconds(1);
    report.times.first_token = begin + absl::Seconds(3);
    report.times.last_token = begin + absl::Seconds(3 + (output - 1) * 2);
    report.times.cached_tokens = 5;
    return report;
  }
  StepReport Step(int32_t prefill_tokens, int32_t decode_tokens) const {
    StepReport report;
    report.sequences = decode_tokens + (prefill_tokens > 0 ? 1 : 0);
    report.prefill_sequences = prefill_tokens > 0 ? 1 : 0;
    report.prefill_tokens = prefill_tokens;
    report.decode_tokens = decode_tokens;
    report.launched = begin + absl::Seconds(1);
    report.committed = begin + absl::Seconds(5);
    report.stages = {{0, 3000000000, 500000000, 500000000}, {3000000000, 4000000000, 0, 0}};
    return report;
  }
  const std::unique_ptr<Metrics> metrics = *Metrics::Create({.listen = "off", .model = "letters"});
  ReplicaMetrics& replica = metrics->AddReplica(2);
  const absl::Time begin = absl::Now() + absl::Hours(1);  // after Serve()
};

TEST_F(Counted, ASequenceOnceWhenItEnds) {
  metrics->Serve();
  replica.OnPrefix(40, 5);
  for (int i = 0; i < 3; ++i) replica.OnToken(absl::Seconds(2));
  replica.OnFinish(Finished(40, 4));
  replica.OnPrefix(7, 0);
  replica.OnFinish(Finished(7, 1));
  FinishReport refused = Finished(100, 0);  // it never left the queue
  refused.times = {};
  refused.times.arrival = begin;
  refused.status = absl::DeadlineExceededError("late");
  replica.OnFinish(refused);
  FinishReport failed = Finished(11, 0);  // it never had a token
  failed.times.first_token = failed.times.last_token = absl::InfinitePast();
  failed.times.cached_tokens = 0;
  failed.status = absl::InternalError("no");
  replica.OnFinish(failed);

  EXPECT_EQ(Metric(Name("finished_total", "reason=\"length\"")), 2);
  EXPECT_EQ(Metric(Name("finished_total", "reason=\"cancelled\"")), 1);
  EXPECT_EQ(Metric(Name("finished_total", "reason=\"error\"")), 1);
  EXPECT_EQ(Metric(Name("queue_seconds_count")), 3);
  EXPECT_EQ(Metric(Name("queue_seconds_sum")), 3);
  EXPECT_EQ(Metric(Name("request_prompt_tokens_count")), 3);
  EXPECT_EQ(Metric(Name("request_prompt_tokens_sum")), 40 + 7 + 11);
  EXPECT_EQ(Metric(Name("prompt_tokens_total")), 40 + 7 + 11);
  EXPECT_EQ(Metric(Name("cached_prompt_tokens_total")), 10);
  EXPECT_EQ(Metric(Name("prefix_cache_queries_total")), 47);
  EXPECT_EQ(Metric(Name("prefix_cache_hits_total")), 5);
  EXPECT_EQ(Metric(Name("request_generation_tokens_count")), 3);
  EXPECT_EQ(Metric(Name("request_generation_tokens_sum")), 5);
  EXPECT_EQ(Metric(Name("generation_tokens_total")), 5);
  EXPECT_EQ(Metric(Name("time_to_first_token_seconds_count")), 2);
  EXPECT_EQ(Metric(Name("time_to_first_token_seconds_sum")), 6);
  EXPECT_EQ(Metric(Name("inter_token_seconds_count")), 3);
  EXPECT_EQ(Metric(Name("inter_token_seconds_sum")), 6);
  EXPECT_EQ(Metric("penstock_inter_token_seconds_bucket{model=\"letters\",le=\"1\"}"), 0);
  EXPECT_EQ(Metric("penstock_inter_token_seconds_bucket{model=\"letters\",le=\"2\"}"), 3);
  EXPECT_EQ(Metric(Name("prefill_seconds_sum")), 4);
  EXPECT_EQ(Metric(Name("decode_seconds_count")), 2);
  EXPECT_EQ(Metric(Name("decode_seconds_sum")), 6);
  EXPECT_EQ(Metric(Name("request_time_per_output_token_seconds_count")), 1);
  EXPECT_EQ(Metric(Name("request_time_per_output_token_seconds_sum")), 2);
}

TEST_F(Counted, AStepOncePerPhaseAndStage) {
  metrics->Serve();
  replica.OnStep(Step(100, 0));
  replica.OnStep(Step(0, 8));
  replica.OnStep(Step(50, 8));
  EXPECT_EQ(Metric(Name("step_seconds_count")), 3);
  EXPECT_EQ(Metric(Name("step_seconds_sum")), 12);
  EXPECT_EQ(Metric(Name("batch_size_count", "phase=\"prefill\"")), 2);
  EXPECT_EQ(Metric(Name("batch_size_sum", "phase=\"prefill\"")), 2);
  EXPECT_EQ(Metric(Name("batch_size_count", "phase=\"decode\"")), 2);
  EXPECT_EQ(Metric(Name("batch_size_sum", "phase=\"decode\"")), 16);
  EXPECT_EQ(Metric(Name("batch_tokens_sum", "phase=\"prefill\"")), 150);
  EXPECT_EQ(Metric(Name("batch_tokens_sum", "phase=\"decode\"")), 16);
  const auto stage = [&](const std::string& what, const std::string& phase, int index) {
    return Metric(absl::StrCat("penstock_stage_compute_seconds_", what,
                               "{model=\"letters\",phase=\"", phase, "\",replica=\"0\",stage=\"",
                               index, "\"}"));
  };
  for (const char* phase : {"prefill", "decode", "mixed"}) {
    EXPECT_EQ(stage("count", phase, 0), 1) << phase;
    EXPECT_EQ(stage("sum", phase, 0), 2) << phase;  // without moving and waiting
    EXPECT_EQ(stage("sum", phase, 1), 1) << phase;
  }
  EXPECT_EQ(stage("count", "encode", 1), 0);
}

TEST_F(Counted, ABatchOfAOneShotModel) {
  metrics->Serve();
  BatchReport batch;
  batch.requests = 3;
  batch.tokens = 60;
  batch.reason = FlushReason::kTimeout;
  batch.launched = begin;
  batch.committed = begin + absl::Seconds(2);
  batch.stages = {{0, 1000000000, 0, 0}};
  replica.OnBatch(batch);
  EncodeFinish finish;
  finish.tokens = 20;
  finish.times = {begin, begin + absl::Seconds(1), begin + absl::Seconds(5)};
  replica.OnEncoded(finish);
  EncodeFinish late;
  late.status = absl::DeadlineExceededError("late");
  late.times.arrival = begin;
  replica.OnEncoded(late);
  EXPECT_EQ(Metric(Name("batches_total", "phase=\"encode\",reason=\"timeout\"")), 1);
  EXPECT_EQ(Metric(Name("batches_total", "phase=\"encode\",reason=\"full\"")), 0);
  EXPECT_EQ(Metric(Name("batch_size_sum", "phase=\"encode\"")), 3);
  EXPECT_EQ(Metric(Name("batch_tokens_sum", "phase=\"encode\"")), 60);
  EXPECT_EQ(Metric(Name("finished_total", "reason=\"encoded\"")), 1);
  EXPECT_EQ(Metric(Name("finished_total", "reason=\"cancelled\"")), 1);
  EXPECT_EQ(Metric(Name("encode_seconds_sum")), 4);
  EXPECT_EQ(Metric(Name("queue_seconds_count")), 1);
  EXPECT_EQ(Metric(Name("prompt_tokens_total")), 20);
  EXPECT_EQ(Metric(Name("time_to_first_token_seconds_count")), 0);
}

TEST_F(Counted, NothingBeforeServing) {
  replica.OnStep(Step(10, 2));
  replica.OnToken(absl::Seconds(1));
  replica.OnPrefix(10, 3);
  replica.OnPreempt();
  replica.OnFinish(Finished(10, 2));
  metrics->Serve();
  StepReport before = Step(10, 2);
  before.launched = absl::Now() - absl::Seconds(10);
  replica.OnStep(before);
  for (const char* name :
       {"step_seconds_count", "generation_tokens_total", "inter_token_seconds_count",
        "prefix_cache_queries_total", "queue_seconds_count", "prompt_tokens_total"})
    EXPECT_EQ(Metric(Name(name)), 0) << name;
  EXPECT_EQ(Metric(Name("preemptions_total", "kind=\"recompute\"")), 0);
}

TEST_F(Counted, ReplicasShareCountersAndHaveTheirOwnGauges) {
  metrics->Serve();
  ReplicaMetrics& second = metrics->AddReplica(1);
  replica.OnFinish(Finished(40, 1));
  second.OnFinish(Finished(2, 1));
  EXPECT_EQ(Metric(Name("prompt_tokens_total")), 42);
  replica.OnState({.running = 3,
                   .waiting = 1,
                   .kv_blocks_used = 5,
                   .kv_blocks_cached = 2,
                   .kv_blocks_total = 20,
                   .in_flight = 2});
  second.OnState({.running = 7});
  const auto gauge = [&](const std::string& name, int index) {
    return Metric(absl::StrCat("penstock_", name, "{model=\"letters\",replica=\"", index, "\"}"));
  };
  EXPECT_EQ(gauge("requests_running", 0), 3);
  EXPECT_EQ(gauge("requests_running", 1), 7);
  EXPECT_EQ(gauge("requests_waiting", 0), 1);
  EXPECT_EQ(gauge("steps_in_flight", 0), 2);
  EXPECT_EQ(gauge("kv_cache_usage_ratio", 0), 0.25);
  const auto blocks = [&](const std::string& state) {
    return Metric(absl::StrCat("penstock_kv_cache_blocks{model=\"letters\",replica=\"0\",state=\"",
                               state, "\"}"));
  };
  EXPECT_EQ(blocks("used"), 5);
  EXPECT_EQ(blocks("cached"), 2);
  EXPECT_EQ(blocks("free"), 13);
  EXPECT_EQ(metrics->Replicas().at(1).state.running, 7);
}

TEST(MetricsTest, EveryMethodIsCountedByItself) {
  const auto metrics = *Metrics::Create({.listen = "off", .model = "letters"});
  metrics->OnCall("Embed", absl::StatusCode::kOk, absl::Seconds(3000));
  metrics->OnCall("Embed", static_cast<absl::StatusCode>(99), absl::Seconds(1));
  metrics->OnCall("Novel", absl::StatusCode::kNotFound, absl::Seconds(1));
  const std::string text = metrics->Text();
  const auto calls = [&](const std::string& method, const std::string& code) {
    return ValueOf(
        text, Name("requests_total", absl::StrCat("code=\"", code, "\",method=\"", method, "\"")));
  };
  EXPECT_EQ(calls("Embed", "OK"), 1);
  EXPECT_EQ(calls("Embed", "UNKNOWN"), 1);
  EXPECT_EQ(calls("Generate", "OK"), 0);
  EXPECT_EQ(calls("Novel", "NOT_FOUND"), 1);
  EXPECT_EQ(ValueOf(text, Name("request_duration_seconds_count", "method=\"Embed\"")), 2);
  EXPECT_EQ(ValueOf(text,
                    "penstock_request_duration_seconds_bucket{method=\"Embed\",model="
                    "\"letters\",le=\"5120\"}"),
            2);
}

TEST(MetricsTest, AliasesOnlyWhenAskedFor) {
  for (const bool aliases : {false, true}) {
    const auto metrics =
        *Metrics::Create({.listen = "off", .aliases = aliases, .model = "letters"});
    metrics->AddReplica(1).OnState({.running = 2, .waiting = 9});
    EXPECT_EQ(
        ValueOf(metrics->Text(), "vllm:num_requests_waiting{engine=\"0\",model_name=\"letters\"}"),
        aliases ? 9 : -1);
  }
}

TEST(MetricsTest, WhatNeverHappenedIsZeroNotAbsent) {
  const auto metrics = *Metrics::Create({.listen = "off", .model = "letters"});
  metrics->AddReplica(1);
  const std::string text = metrics->Text();
  for (const std::string& line :
       {Name("requests_total", "code=\"UNAVAILABLE\",method=\"Generate\""),
        Name("requests_total", "code=\"OK\",method=\"Score\""),
        Name("requests_total", "code=\"OK\",method=\"Trace\""),
        Name("finished_total", "reason=\"cancelled\""), Name("model_load_seconds"),
        Name("batches_total", "phase=\"encode\",reason=\"idle\""),
        Name("preemptions_total", "kind=\"recompute\""),
        std::string("penstock_requests_waiting{model=\"letters\",replica=\"0\"}"),
        std::string("penstock_queue_seconds_bucket{model=\"letters\",le=\"2560\"}"),
        std::string("penstock_inter_token_seconds_bucket{model=\"letters\",le=\"2560\"}"),
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
