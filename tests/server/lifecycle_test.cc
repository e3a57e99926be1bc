#include <grpcpp/grpcpp.h>

#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/health_reporter.h"
#include "tests/server/serving_fixture.h"

namespace penstock {
namespace {

constexpr const char* kReadiness[] = {"", "penstock.v1.Generation", "penstock.v1.Encoding",
                                      "readiness"};

TEST(LifecycleTest, NotServingUntilTheWarmUpHasRun) {
  Serving::Options options;
  options.open = false;
  Serving serving(options);
  const auto stub = serving.NewStub();
  for (const char* name : kReadiness) EXPECT_EQ(serving.Health(name), "NOT_SERVING") << name;
  EXPECT_EQ(serving.Health("liveness"), "SERVING");
  EXPECT_EQ(Generate(*stub, TextRequest("a", 1)).status.error_code(),
            grpc::StatusCode::UNAVAILABLE);

  serving.executor.Hold();
  std::thread opening([&] { EXPECT_TRUE(serving.Open().ok()); });
  EXPECT_TRUE(Eventually([&] { return serving.scheduler->state().running == 1; }));
  EXPECT_EQ(serving.Health(), "NOT_SERVING");
  EXPECT_EQ(Generate(*stub, TextRequest("a", 1)).status.error_code(),
            grpc::StatusCode::UNAVAILABLE);
  serving.executor.Release();
  opening.join();
  for (const char* name : kReadiness) EXPECT_EQ(serving.Health(name), "SERVING") << name;
  EXPECT_TRUE(Generate(*stub, TextRequest("a", 1)).status.ok());
}

TEST(LifecycleTest, AFailedWarmUpIsAnErrorAndOpensNothing) {
  Serving::Options options;
  options.open = false;
  options.server.warm_up_timeout = absl::Milliseconds(200);
  Serving serving(options);
  serving.executor.Hold();
  EXPECT_EQ(serving.Open().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(serving.Health(), "NOT_SERVING");
  EXPECT_EQ(Generate(*serving.NewStub(), TextRequest("a", 1)).status.error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

TEST(LifecycleTest, AStopDuringTheWarmUpEndsIt) {
  Serving::Options options;
  options.open = false;
  Serving serving(options);
  serving.executor.Hold();
  std::thread opening([&] { EXPECT_EQ(serving.Open().code(), absl::StatusCode::kCancelled); });
  serving.server->RequestStop();
  opening.join();
}

TEST(LifecycleTest, HealthAnswersWhileAStepTakesLong) {
  Serving serving;
  serving.executor.Hold();
  const auto stub = serving.NewStub();
  std::thread client([&] { EXPECT_EQ(Generate(*stub, TextRequest("a", 2)).text(), "bc"); });
  EXPECT_TRUE(Eventually([&] { return serving.scheduler->state().running == 1; }));
  const absl::Time begin = absl::Now();
  EXPECT_EQ(serving.Health(), "SERVING");
  EXPECT_LT(absl::Now() - begin, absl::Seconds(5));
  serving.executor.Release();
  client.join();
}

TEST(LifecycleTest, AStallTurnsReadinessOffAndProgressTurnsItOn) {
  Serving::Options options;
  options.server.health_stall = absl::Milliseconds(500);
  Serving serving(options);
  serving.executor.Hold();
  const auto stub = serving.NewStub();
  std::thread client([&] { EXPECT_TRUE(Generate(*stub, TextRequest("a", 2)).status.ok()); });
  EXPECT_TRUE(Eventually([&] { return serving.Health() == "NOT_SERVING"; }));
  EXPECT_EQ(serving.Health("liveness"), "SERVING");
  serving.executor.Release();
  EXPECT_TRUE(Eventually([&] { return serving.Health() == "SERVING"; }));
  client.join();
}

TEST(LifecycleTest, ADrainLetsRunningCallsFinishAndRefusesNewOnes) {
  Serving serving;
  serving.executor.set_step_delay(absl::Milliseconds(20));
  const auto stub = serving.NewStub();
  std::vector<std::thread> clients;
  for (int i = 0; i < 3; ++i)
    clients.emplace_back([&] {
      Answer answer = Generate(*stub, TextRequest("a", 50));
      EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
      EXPECT_EQ(answer.token_ids[0].size(), 50u);
    });
  EXPECT_TRUE(Eventually([&] { return serving.scheduler->state().running == 3; }));
  serving.server->RequestStop();
  serving.server->AwaitStop();
  std::thread draining([&] { EXPECT_TRUE(serving.server->Drain()); });
  EXPECT_TRUE(Eventually([&] { return serving.Health() == "NOT_SERVING"; }));
  EXPECT_EQ(Generate(*stub, TextRequest("a", 1)).status.error_code(),
            grpc::StatusCode::UNAVAILABLE);
  for (std::thread& client : clients) client.join();
  draining.join();
  serving.drained = true;
}

TEST(LifecycleTest, TheGracePeriodAndASecondStopEndCalls) {
  for (const bool second_stop : {false, true}) {
    Serving::Options options;
    options.server.grace = second_stop ? absl::Seconds(60) : absl::Milliseconds(200);
    Serving serving(options);
    serving.executor.Hold();
    const auto stub = serving.NewStub();
    std::thread client([&] {
      EXPECT_EQ(Generate(*stub, TextRequest("a", 5)).status.error_code(),
                grpc::StatusCode::UNAVAILABLE);
    });
    EXPECT_TRUE(Eventually([&] { return serving.scheduler->state().running == 1; }));
    serving.server->RequestStop();
    if (second_stop) serving.server->RequestStop();
    const absl::Time begin = absl::Now();
    EXPECT_FALSE(serving.server->Drain());
    EXPECT_LT(absl::Now() - begin, absl::Seconds(30));
    client.join();
    serving.drained = true;
  }
}

TEST(LifecycleTest, AnAddressInUseIsNamed) {
  Serving serving;
  ServerOptions options;
  options.listen = serving.address();
  const auto second = InferenceServer::Start(options, *serving.metrics);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().message().find(options.listen), std::string::npos) << second.status();
  options.listen = "no address";
  EXPECT_FALSE(InferenceServer::Start(options, *serving.metrics).ok());
}

TEST(HealthTest, AStallNeedsWorkAndTime) {
  const absl::Time start = absl::UnixEpoch();
  SchedulerState state;
  state.last_progress = start;
  const auto can_serve = [&](int64_t seconds) {
    return CanServe(state, start + absl::Seconds(seconds), absl::Seconds(10));
  };
  EXPECT_TRUE(can_serve(100));  // idle is no stall
  state.waiting = 1;
  EXPECT_TRUE(can_serve(9));
  EXPECT_FALSE(can_serve(11));
  state.last_progress = start + absl::Seconds(11);
  EXPECT_TRUE(can_serve(12));
  state.healthy = false;  // whatever moves
  EXPECT_FALSE(can_serve(12));
}

}  // namespace
}  // namespace penstock
