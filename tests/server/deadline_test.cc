// Deadlines and queue timeouts, whatever the scheduler is busy with: the executor is held, so
// nothing but a timer can notice.

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tests/server/open_call.h"
#include "tests/server/serving_fixture.h"

namespace penstock {
namespace {

// Of a machine that other tests keep busy.
constexpr absl::Duration kNoise = absl::Milliseconds(500);

class DeadlineTest : public testing::Test {
 protected:
  static Serving::Options OneAtATime() {
    Serving::Options options;
    options.executor.max_sequences = 1;
    return options;
  }
  // The call ends within the noise of `expected`, saying `why`; never before it.
  static void ExpectEnd(Serving& serving, v1::GenerateRequest request, absl::Duration expected,
                        const std::string& why, absl::Duration timeout = absl::Seconds(30)) {
    const absl::Time begin = absl::Now();
    const Answer answer = Generate(*serving.NewStub(), request, timeout);
    const absl::Duration took = absl::Now() - begin;
    EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED)
        << answer.status.error_message();
    EXPECT_TRUE(absl::StrContains(answer.status.error_message(), why))
        << answer.status.error_message();
    EXPECT_GE(took, expected);
    EXPECT_LE(took, expected + kNoise);
  }
  static void AwaitRunning(Serving& serving) {
    ASSERT_TRUE(Eventually([&] { return serving.scheduler->state().running == 1; }));
  }
  static bool Idle(Serving& serving) {
    const SchedulerState state = serving.scheduler->state();
    return !state.has_work() && state.kv_blocks_used == 0;
  }
};

TEST_F(DeadlineTest, TheQueueTimeoutPassesBehindALongJob) {
  Serving::Options options = OneAtATime();
  options.server.calls.queue_timeout = absl::Milliseconds(300);
  Serving serving(options);
  serving.executor.Hold();
  const auto stub = serving.NewStub();
  OpenCall running(*stub, TextRequest("a", 3));  // is not in the queue, so it does not count
  AwaitRunning(serving);
  ExpectEnd(serving, TextRequest("a", 3), absl::Milliseconds(300),
            "the queue timeout of 300ms passed in the queue");
  serving.executor.Release();
  EXPECT_EQ(running.ReadText(), "bcd");
  EXPECT_TRUE(running.Finish().ok());
  EXPECT_TRUE(Eventually([&] { return Idle(serving); }));
}

TEST_F(DeadlineTest, ARequestSetsItsOwnQueueTimeout) {
  Serving serving(OneAtATime());  // whose default is none
  serving.executor.Hold();
  const auto stub = serving.NewStub();
  OpenCall running(*stub, TextRequest("a", 3));
  AwaitRunning(serving);
  v1::GenerateRequest request = TextRequest("a", 3);
  request.mutable_scheduling()->set_queue_timeout_seconds(0.2);
  ExpectEnd(serving, request, absl::Milliseconds(200), "the queue timeout of 200ms");
  request.set_n(3);
  ExpectEnd(serving, request, absl::Milliseconds(200), "the queue timeout of 200ms");
  serving.executor.Release();
}

TEST_F(DeadlineTest, TheQueueTimeoutDoesNotTouchWhatHasStarted) {
  Serving::Options options = OneAtATime();
  options.server.calls.queue_timeout = absl::Milliseconds(150);
  Serving serving(options);
  serving.executor.set_step_delay(absl::Milliseconds(20));
  Answer answer = Generate(*serving.NewStub(), TextRequest("a", 25));  // 500 ms
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.text().size(), 25u);
}

TEST_F(DeadlineTest, TheRequestTimeoutPassesInEachPhase) {
  Serving::Options options = OneAtATime();
  options.server.calls.request_timeout = absl::Milliseconds(400);
  Serving serving(options);
  serving.executor.Hold();
  ExpectEnd(serving, TextRequest("a", 3), absl::Milliseconds(400),
            "the server's request timeout of 400ms passed in prefill");
  // The step that never ends still has the first one's slot.
  ExpectEnd(serving, TextRequest("a", 3), absl::Milliseconds(400), "passed in the queue");
  serving.executor.Release();
  EXPECT_TRUE(Eventually([&] { return Idle(serving); }));
  serving.executor.set_step_delay(absl::Milliseconds(20));
  ExpectEnd(serving, TextRequest("a", 120), absl::Milliseconds(400), "passed in decode");
  EXPECT_TRUE(Eventually([&] { return Idle(serving); }));
}

TEST_F(DeadlineTest, TheSmallerOfBothDeadlinesCounts) {
  Serving::Options options;
  options.server.calls.request_timeout = absl::Seconds(20);
  Serving serving(options);
  serving.executor.Hold();
  ExpectEnd(serving, TextRequest("a", 3), absl::Milliseconds(300), "", absl::Milliseconds(300));
  serving.executor.Release();
  EXPECT_TRUE(Eventually([&] { return Idle(serving); }));
  EXPECT_TRUE(Eventually([&] {  // the client does not wait for the server's side of it
    return serving.Metric(
               "penstock_requests_total{code=\"DEADLINE_EXCEEDED\","
               "method=\"Generate\",model=\"letters\"}") == 1;
  }));
}

// 300 ms of the deadline are over when the step that takes for ever is released: the blocks come
// back with the next commit, not when 120 tokens have been drawn.
TEST_F(DeadlineTest, BlocksComeBackWithinAStep) {
  Serving serving;
  serving.executor.set_step_delay(absl::Milliseconds(100));
  Generate(*serving.NewStub(), TextRequest("a", 120), absl::Milliseconds(350));
  EXPECT_TRUE(Eventually([&] { return Idle(serving); }, absl::Milliseconds(300) + kNoise));
}

TEST_F(DeadlineTest, ManyDeadlinesAreKeptAtOnce) {
  Serving serving;
  serving.executor.Hold();
  std::vector<std::thread> clients;
  for (int i = 0; i < 24; ++i)
    clients.emplace_back([&serving, i] {
      v1::GenerateRequest request = TextRequest("a", 50);
      ExpectEnd(serving, request, absl::Milliseconds(100 + 20 * i), "",
                absl::Milliseconds(100 + 20 * i));
    });
  for (std::thread& client : clients) client.join();
  serving.executor.Release();
  EXPECT_TRUE(Eventually([&] { return Idle(serving); }));
}

}  // namespace
}  // namespace penstock
