#include "cli/bench/bench_run.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "prometheus/counter.h"
#include "prometheus/exposer.h"
#include "prometheus/gauge.h"
#include "prometheus/registry.h"
#include "tests/bench_client/fake_servers.h"

namespace penstock {
namespace {

BenchOptions Options(const FakeServer& server) {
  BenchOptions options;
  options.target.address = server.address();
  options.prompt_tokens = LengthDistribution::Fixed(10);
  options.output_tokens = LengthDistribution::Fixed(4);
  options.requests = 20;
  return options;
}

BenchReport Measure(BenchOptions options) {
  const absl::Status completed = options.Complete();
  EXPECT_TRUE(completed.ok()) << completed;
  BenchRun run(
      options, [](const LoadProgress&) {}, absl::Seconds(5));
  absl::StatusOr<BenchReport> report = run.Run();
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? *std::move(report) : BenchReport();
}

const NamedLatency* Find(const BenchReport& report, const std::string& name) {
  for (const NamedLatency& latency : report.summary.latencies)
    if (latency.name == name) return &latency;
  return nullptr;
}

TEST(BenchRunTest, AClosedLoopCountsWhatItAskedFor) {
  FakeGeneration service;
  service.gap = absl::Milliseconds(2);
  FakeServer server(service);
  BenchOptions options = Options(server);
  options.concurrency = 3;
  options.warm_up = 5;
  options.target.priority = -4;
  const BenchReport report = Measure(options);
  EXPECT_EQ(report.summary.succeeded, 20);
  EXPECT_EQ(report.summary.failed, 0);
  EXPECT_EQ(report.summary.output_tokens, 80);
  EXPECT_EQ(report.summary.prompt_tokens, 200);
  EXPECT_EQ(report.summary.cached_prompt_tokens, 20);
  EXPECT_EQ(service.most_running(), 3);
  ASSERT_EQ(service.requests().size(), 25u);  // with the warm-up
  const v1::GenerateRequest request = service.requests().back();
  EXPECT_TRUE(request.stopping().ignore_eos());
  EXPECT_EQ(request.scheduling().priority(), -4);
  EXPECT_EQ(request.tokens().ids_size(), 10);
  EXPECT_EQ(Find(report, "itl")->seconds.count, 60);
  EXPECT_EQ(Find(report, "queue")->seconds.max, 0.25);
  EXPECT_GE(Find(report, "itl")->seconds.mean, 0.001);
  EXPECT_GE(Find(report, "e2e")->seconds.p50, Find(report, "ttft")->seconds.p50);
  for (const RequestRecord& record : report.records) EXPECT_GE(record.index, 0);
}

TEST(BenchRunTest, AnOpenLoopDoesNotWaitForTheServer) {
  FakeGeneration service;
  service.gap = absl::Milliseconds(100);  // 400 ms a request
  FakeServer server(service);
  BenchOptions options = Options(server);
  options.rate = 100;
  const BenchReport report = Measure(options);
  EXPECT_EQ(report.summary.succeeded, 20);
  EXPECT_GT(service.most_running(), 8);  // of 20 that arrive within about 200 ms
  // The same seed asks the same at the same times.
  std::vector<absl::Duration> intended;
  for (const RequestRecord& record : report.records) intended.push_back(record.intended);
  std::sort(intended.begin(), intended.end());
  PoissonArrivals arrivals(100, 0);
  for (absl::Duration at : intended) {
    EXPECT_EQ(at, *arrivals.next());
    arrivals.OnStart();
  }
}

TEST(BenchRunTest, LatencyCountsFromTheScheduleEvenIfTheCallIsLate) {
  FakeGeneration service;
  FakeServer server(service);
  BenchOptions options = Options(server);
  options.rate = 1e6f;  // more than the client can start: all are due at once
  options.requests = 300;
  const BenchReport report = Measure(options);
  EXPECT_EQ(report.summary.succeeded, 300);
  for (const RequestRecord& record : report.records) {
    EXPECT_GE(record.lateness(), absl::ZeroDuration());
    EXPECT_EQ(record.e2e(), record.end - record.intended);
    EXPECT_LT(record.intended, absl::Milliseconds(10));
  }
}

TEST(BenchRunTest, ATraceGivesArrivalsAndLengths) {
  FakeGeneration service;
  FakeServer server(service);
  BenchOptions options = Options(server);
  options.requests.reset();
  options.trace = absl::StrCat(testing::TempDir(), getpid(), "_trace.csv");
  std::ofstream(options.trace) << "0,5,1\n0.05,6,2\n0.2,7,3\n";
  const BenchReport report = Measure(options);
  ASSERT_EQ(report.records.size(), 3u);
  EXPECT_EQ(report.summary.prompt_tokens, 18);
  EXPECT_EQ(report.summary.output_tokens, 6);
  for (const RequestRecord& record : report.records)
    EXPECT_EQ(record.intended, absl::Milliseconds(record.index == 0   ? 0
                                                  : record.index == 1 ? 50
                                                                      : 200));
  std::ofstream(options.trace) << "0,5\n";
  EXPECT_TRUE(absl::StrContains(options.Complete().message(), "_trace.csv:1: "));
  std::remove(options.trace.c_str());
}

TEST(BenchRunTest, ADurationEndsTheStarts) {
  FakeGeneration service;
  service.gap = absl::Milliseconds(20);
  FakeServer server(service);
  BenchOptions options = Options(server);
  options.requests.reset();
  options.duration = absl::Milliseconds(300);
  const BenchReport report = Measure(options);
  EXPECT_GE(report.summary.succeeded, 8);
  for (const RequestRecord& record : report.records) {
    EXPECT_TRUE(record.ok());  // what runs is waited for
    EXPECT_LT(record.sent, absl::Milliseconds(300));
  }
}

TEST(BenchRunTest, AFailingServerIsCounted) {
  FakeGeneration service;
  service.failure = grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full");
  FakeServer server(service);
  BenchOptions options = Options(server);
  options.concurrency = 20;
  const BenchReport report = Measure(options);
  EXPECT_EQ(report.summary.succeeded, 0);
  EXPECT_EQ(report.summary.failed, 20);
  EXPECT_EQ(report.summary.failures.at("RESOURCE_EXHAUSTED").count, 20);
  EXPECT_EQ(report.summary.failures.at("RESOURCE_EXHAUSTED").first_message, "full");
}

TEST(BenchRunTest, AStreamWithoutAFinishReasonIsAFailure) {
  FakeGeneration service;
  service.without_finish_reason = true;
  FakeServer server(service);
  EXPECT_EQ(Measure(Options(server)).summary.failures.at("DATA_LOSS").count, 20);
}

TEST(BenchRunTest, AServerThatDiesMidwayLeavesAReport) {
  FakeGeneration service;
  service.gap = absl::Milliseconds(5);
  FakeServer server(service);
  BenchOptions options = Options(server);
  options.concurrency = 4;
  options.requests = 60;
  std::thread killer([&] {
    while (service.requests().size() < 20)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    server.Die();
  });
  const BenchReport report = Measure(options);
  killer.join();
  EXPECT_GE(report.summary.succeeded, 10);
  EXPECT_GE(report.summary.failures.at("UNAVAILABLE").count, 30);
  EXPECT_EQ(report.summary.finished(), 60);
}

TEST(BenchRunTest, ATimeoutIsAFailure) {
  FakeGeneration service;
  service.gap = absl::Seconds(1);
  FakeServer server(service);
  BenchOptions options = Options(server);
  options.requests = 2;
  options.target.timeout = absl::Milliseconds(100);
  EXPECT_EQ(Measure(options).summary.failures.at("DEADLINE_EXCEEDED").count, 2);
}

TEST(BenchRunTest, StopCancelsAndReports) {
  FakeGeneration service;
  service.gap = absl::Milliseconds(20);
  FakeServer server(service);
  BenchOptions options = Options(server);
  options.requests = 1000000;
  options.concurrency = 4;
  ASSERT_TRUE(options.Complete().ok());
  std::atomic<int> shown{0};
  BenchRun run(
      options, [&shown](const LoadProgress&) { ++shown; }, absl::Milliseconds(50));
  std::thread stopper([&] {
    while (service.requests().size() < 12)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    run.Stop();
  });
  const absl::StatusOr<BenchReport> report = run.Run();
  stopper.join();
  ASSERT_TRUE(report.ok());
  EXPECT_GE(report->summary.succeeded, 4);
  EXPECT_EQ(report->summary.failed, 0);
  EXPECT_GE(report->summary.cut_off, 1);
  EXPECT_GE(shown.load(), 1);
}

TEST(BenchRunTest, AThousandStreamsAtOnce) {
  FakeKserve service;  // answers at once
  FakeServer server(service);
  BenchOptions options = Options(server);
  options.protocol = "kserve";
  options.target.model = "m";
  options.target.connections = 2;
  options.concurrency = 1000;
  options.requests = 3000;
  EXPECT_EQ(Measure(options).summary.succeeded, 3000);
}

TEST(BenchRunTest, EmbeddingsAreCountedByInputs) {
  FakeEncoding service;
  FakeServer server(service);
  BenchOptions options = Options(server);
  options.kind = "embed";
  options.batch = 3;
  options.input_tokens = LengthDistribution::Fixed(8);
  const BenchReport report = Measure(options);
  EXPECT_TRUE(report.embed);
  EXPECT_EQ(report.summary.succeeded, 20);
  EXPECT_EQ(report.summary.inputs, 60);
  EXPECT_EQ(report.summary.prompt_tokens, 600);  // as the server counted
  EXPECT_EQ(Find(report, "queue")->seconds.max, 0.5);
  EXPECT_EQ(Find(report, "ttft"), nullptr);
}

TEST(BenchRunTest, TheServersMetricsAreReadDuringTheRun) {
  prometheus::Exposer exposer("127.0.0.1:0");
  const auto registry = std::make_shared<prometheus::Registry>();
  exposer.RegisterCollectable(registry);
  const auto counter = [&registry](const char* what, double start) {
    auto& family = prometheus::BuildCounter()
                       .Name(absl::StrCat("penstock_stage_", what, "_seconds_total"))
                       .Register(*registry);
    prometheus::Counter& one = family.Add({{"stage", "0"}});
    one.Increment(start);
    return &one;
  };
  prometheus::Counter* busy = counter("busy", 5);
  prometheus::Counter* bubble = counter("bubble", 9);
  counter("idle", 100);
  prometheus::BuildGauge().Name("penstock_requests_running").Register(*registry).Add({}).Set(7);

  FakeGeneration service;
  service.gap = absl::Milliseconds(100);
  FakeServer server(service);
  BenchOptions options = Options(server);
  options.requests = 1;
  options.metrics =
      absl::StrCat("http://127.0.0.1:", exposer.GetListeningPorts().at(0), "/metrics");
  std::thread work([&] {
    while (service.requests().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    busy->Increment(3);
    bubble->Increment(1);
  });
  const BenchReport report = Measure(options);
  work.join();
  ASSERT_FALSE(report.server.empty());
  bool changed = false;
  for (const MetricsInterval& interval : report.server) {
    EXPECT_EQ(interval.gauges.at("running"), 7);
    for (const auto& [stage, share] : interval.stage_shares) {
      changed = true;
      EXPECT_DOUBLE_EQ(share.busy, 0.75);
      EXPECT_DOUBLE_EQ(share.bubble, 0.25);
    }
  }
  EXPECT_TRUE(changed);
}

class KserveTest : public testing::Test {
 protected:
  BenchOptions KserveOptions() {
    BenchOptions options = Options(server_);
    options.protocol = "kserve";
    options.target.model = "m";
    return options;
  }
  FakeKserve service_;
  FakeServer server_{service_};
};

TEST_F(KserveTest, StreamsTextsAndCountsAsTold) {
  BenchOptions options = KserveOptions();
  options.target.priority = 2;
  const BenchReport report = Measure(options);
  EXPECT_EQ(report.summary.succeeded, 20);
  EXPECT_EQ(report.summary.output_tokens, 80);
  EXPECT_EQ(Find(report, "itl")->seconds.count, 60);
  const inference::ModelInferRequest request = service_.requests().front();
  EXPECT_EQ(request.model_name(), "m");
  EXPECT_EQ(request.parameters().at("priority").uint64_param(), 2u);
  EXPECT_EQ(request.inputs(0).name(), "text_input");
  EXPECT_EQ(request.inputs(0).shape_size(), 1);
  EXPECT_EQ(std::count(request.inputs(0).contents().bytes_contents(0).begin(),
                       request.inputs(0).contents().bytes_contents(0).end(), ' '),
            9);
  EXPECT_TRUE(request.inputs(1).contents().bool_contents(0));  // stream
}

TEST_F(KserveTest, WithoutCountsAMessageIsAToken) {
  service_.tells_counts = false;
  BenchOptions options = KserveOptions();
  options.target.count_tokens = false;
  EXPECT_EQ(Measure(options).summary.output_tokens, 80);
  const inference::ModelInferRequest request = service_.requests().front();
  for (const auto& input : request.inputs()) EXPECT_NE(input.name(), "return_num_output_tokens");
}

TEST_F(KserveTest, UnaryCallsHaveOneMessage) {
  BenchOptions options = KserveOptions();
  options.target.unary = true;
  const BenchReport report = Measure(options);
  EXPECT_EQ(report.summary.output_tokens, 80);
  EXPECT_EQ(Find(report, "itl"), nullptr);
}

TEST_F(KserveTest, EmbeddingsAreBatchesOfTexts) {
  BenchOptions options = KserveOptions();
  options.kind = "embed";
  options.batch = 3;
  const BenchReport report = Measure(options);
  EXPECT_EQ(report.summary.inputs, 60);
  EXPECT_EQ(report.summary.output_tokens, 0);
  const inference::ModelInferRequest request = service_.requests().front();
  EXPECT_EQ(request.inputs(0).shape(0), 3);
  EXPECT_EQ(request.inputs(0).shape(1), 1);
  EXPECT_EQ(request.inputs(0).contents().bytes_contents_size(), 3);
}

TEST_F(KserveTest, AnErrorWithinTheStreamIsAFailure) {
  service_.error_in_stream = "no such model";
  const BenchReport report = Measure(KserveOptions());
  EXPECT_EQ(report.summary.failures.at("UNKNOWN").count, 20);
  EXPECT_EQ(report.summary.failures.at("UNKNOWN").first_message, "no such model");
}

TEST(BenchOptionsTest, WhatCannotWorkIsRefused) {
  const auto complaint = [](auto change) {
    BenchOptions options;
    change(options);
    return std::string(options.Complete().message());
  };
  using O = BenchOptions;
  EXPECT_EQ(complaint([](O&) {}), "");
  EXPECT_TRUE(absl::StrContains(complaint([](O& o) { o.concurrency = 1, o.rate = 1; }), "--rate"));
  EXPECT_TRUE(absl::StrContains(complaint([](O& o) { o.rate = 0; }), "--rate"));
  EXPECT_TRUE(absl::StrContains(complaint([](O& o) { o.concurrency = 0; }), "--concurrency"));
  EXPECT_TRUE(absl::StrContains(complaint([](O& o) { o.requests = 0; }), "--requests"));
  EXPECT_TRUE(absl::StrContains(complaint([](O& o) { o.protocol = "kserve"; }), "--model"));
  EXPECT_TRUE(absl::StrContains(complaint([](O& o) { o.target.unary = true; }), "--unary"));
  EXPECT_TRUE(absl::StrContains(complaint([](O& o) { o.batch = 2; }), "--batch"));
  EXPECT_TRUE(absl::StrContains(complaint([](O& o) { o.metrics = "9464"; }), "--metrics"));
  EXPECT_TRUE(absl::StrContains(complaint([](O& o) { o.trace = "/no/such"; }), "/no/such"));
  const auto embed_slo = [](O& o) {
    o.kind = "embed";
    o.slo.ttft = absl::Seconds(1);
  };
  EXPECT_TRUE(absl::StrContains(complaint(embed_slo), "--slo"));
}

TEST(BenchRunTest, MetricsThatCannotBeReadAreToldBeforeTheLoad) {
  FakeGeneration service;
  FakeServer server(service);
  BenchOptions options = Options(server);
  options.metrics = "http://127.0.0.1:1/metrics";
  BenchRun run(
      options, [](const LoadProgress&) {}, absl::Seconds(5));
  const absl::StatusOr<BenchReport> report = run.Run();
  EXPECT_TRUE(absl::StrContains(report.status().message(), "http://127.0.0.1:1/metrics: "));
  EXPECT_TRUE(service.requests().empty());
}

}  // namespace
}  // namespace penstock
