#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/open_call.h"
#include "tests/server/serving_fixture.h"

namespace penstock {
namespace {

bool Idle(Serving& serving) {
  const SchedulerState state = serving.scheduler->state();
  return state.running == 0 && state.waiting == 0 && state.kv_blocks_used == 0;
}

TEST(LoadTest, AFullQueueRefusesAtOnceAndRecovers) {
  Serving::Options options;
  options.executor.max_sequences = 1;
  options.scheduler.max_queued = 2;
  Serving serving(options);
  const auto stub = serving.NewStub();
  serving.executor.Hold();
  const v1::GenerateRequest request = TextRequest("a", 3);
  OpenCall running(*stub, request);
  ASSERT_TRUE(Eventually([&] { return serving.scheduler->state().running == 1; }));
  OpenCall second(*stub, request), third(*stub, request);
  ASSERT_TRUE(Eventually([&] { return serving.scheduler->state().waiting == 2; }));

  const Answer refused = Generate(*stub, request);
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
      << refused.status.error_message();
  // Several samples are taken or refused as one; what got in leaves again.
  v1::GenerateRequest several = request;
  several.set_n(2);
  EXPECT_EQ(Generate(*stub, several).status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);

  serving.executor.Release();
  for (OpenCall* call : {&running, &second, &third}) {
    v1::GenerateResponse message;
    std::string text;
    while (call->Read(&message)) text += message.text();
    EXPECT_TRUE(call->Finish().ok());
    EXPECT_EQ(text, "bcd");
  }
  EXPECT_TRUE(Eventually([&] { return Idle(serving); }));
  EXPECT_EQ(serving.Metric("penstock_requests_waiting{model=\"letters\",replica=\"0\"}"), 0);
}

TEST(LoadTest, TheClientsDeadlineEndsTheWork) {
  Serving serving;
  serving.executor.set_step_delay(absl::Milliseconds(20));
  const auto stub = serving.NewStub();
  const Answer answer = Generate(*stub, TextRequest("a", 120), absl::Milliseconds(300));
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Eventually([&] { return Idle(serving); }, absl::Seconds(1)));  // not 120 x 20 ms
}

TEST(LoadTest, ManyCancelledStreamsLeaveNothing) {
  Serving serving;
  serving.executor.set_step_delay(absl::Milliseconds(1));
  const auto stub = serving.NewStub();
  constexpr int kClients = 4, kEach = 75;
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i)
    clients.emplace_back([&stub] {
      for (int j = 0; j < kEach; ++j) {
        OpenCall call(*stub, TextRequest("a", 100));
        v1::GenerateResponse message;
        EXPECT_TRUE(call.Read(&message));
        call.Cancel();
        EXPECT_FALSE(call.Finish().ok());
      }
    });
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(Eventually([&] { return Idle(serving); }));
  Answer answer = Generate(*stub, TextRequest("a", 3));
  EXPECT_EQ(answer.text(), "bcd");
}

TEST(LoadTest, ACallCancelledBeforeItsFirstTokenEnds) {
  Serving serving;
  serving.executor.Hold();
  const auto stub = serving.NewStub();
  {
    OpenCall call(*stub, TextRequest("a", 100));
    ASSERT_TRUE(Eventually([&] { return serving.scheduler->state().running == 1; }));
    call.Cancel();
    EXPECT_EQ(call.Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  serving.executor.Release();
  EXPECT_TRUE(Eventually([&] { return Idle(serving); }));
}

TEST(LoadTest, ConcurrentStreamsAllAnswer) {
  Serving serving;
  const auto stub = serving.NewStub();
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i)
    clients.emplace_back([&stub, i] {
      const std::string prompt(1, static_cast<char>('a' + i));
      for (int j = 0; j < 10; ++j) {
        Answer answer = Generate(*stub, TextRequest(prompt, 4));
        EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
        for (int k = 0; k < 4; ++k)
          EXPECT_EQ(answer.text()[static_cast<size_t>(k)], 'a' + i + 1 + k);
      }
    });
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(Eventually([&] { return Idle(serving); }));
}

}  // namespace
}  // namespace penstock
