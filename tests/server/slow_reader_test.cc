// Clients that do not read: what is kept for them is bounded, and nobody else notices.

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tests/server/open_call.h"
#include "tests/server/serving_fixture.h"

namespace penstock {
namespace {

constexpr uint32_t kTokens = 60000;
constexpr int32_t kUnread = 500;

Serving::Options LongContexts() {
  Serving::Options options;
  options.executor.max_context = 1 << 16;
  options.executor.kv_blocks = 1 << 14;
  options.scheduler.max_unread_tokens = kUnread;
  options.server.calls.max_unread_tokens = kUnread;
  return options;
}

// Until the server has stopped generating for a client that does not read.
bool AwaitStandstill(Serving& serving) {
  int64_t before = -1;
  return Eventually(
      [&] {
        absl::SleepFor(absl::Milliseconds(150));
        return std::exchange(before, serving.scheduler->state().pending_tokens) ==
               serving.scheduler->state().pending_tokens;
      },
      absl::Seconds(60));
}

TEST(SlowReaderTest, ItsSequencePausesAndGoesOnWhenItReads) {
  Serving serving(LongContexts());
  const auto stub = serving.NewStub(SmallWindow());
  OpenCall slow(*stub, TextRequest("a", kTokens));
  ASSERT_TRUE(Eventually([&] { return serving.scheduler->state().running == 1; }));
  ASSERT_TRUE(AwaitStandstill(serving));
  // Far from everything has been generated: two messages' worth, and what the transport holds.
  EXPECT_GT(serving.scheduler->state().pending_tokens, int64_t{kTokens} / 3);
  EXPECT_TRUE(serving.scheduler->state().has_work());

  const auto fast = serving.NewStub();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Generate(*fast, TextRequest("a", 3)).text(), "bcd");

  v1::GenerateResponse message;
  std::string text;
  int largest = 0;
  while (slow.Read(&message)) {
    text += message.text();
    largest = std::max(largest, message.token_ids_size());
  }
  EXPECT_TRUE(slow.Finish().ok());
  ASSERT_EQ(text.size(), kTokens);  // nothing lost, nothing twice
  for (size_t i = 0; i < text.size(); ++i) ASSERT_EQ(text[i], 'a' + static_cast<int>(i + 1) % 26);
  EXPECT_GT(largest, kUnread / 2);  // what had gathered came as one
  EXPECT_LE(largest, 4 * kUnread);
}

TEST(SlowReaderTest, OneThatTakesNothingIsGivenUp) {
  Serving::Options options = LongContexts();
  options.server.calls.client_stall = absl::Milliseconds(700);
  Serving serving(options);
  const auto stub = serving.NewStub(SmallWindow());
  OpenCall dead(*stub, TextRequest("a", kTokens));
  ASSERT_TRUE(Eventually([&] { return serving.scheduler->state().running == 1; }));
  const auto fast = serving.NewStub();
  std::atomic<bool> done{false};
  std::thread neighbour([&] {
    while (!done) EXPECT_EQ(Generate(*fast, TextRequest("a", 3)).text(), "bcd");
  });
  EXPECT_TRUE(Eventually([&] {
    return serving.Metric(
               "penstock_requests_total{code=\"DEADLINE_EXCEEDED\",method=\"Generate\","
               "model=\"letters\"}") == 1;
  }));
  done = true;
  neighbour.join();
  EXPECT_TRUE(Eventually([&] {  // though nobody has read
    return !serving.scheduler->state().has_work() && serving.scheduler->state().kv_blocks_used == 0;
  }));
  // The status has gone past what the client never took.
  EXPECT_LT(dead.ReadText().size(), kTokens);
  const grpc::Status status = dead.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(absl::StrContains(status.error_message(), "client stall timeout of 700ms"))
      << status.error_message();
}

TEST(SlowReaderTest, ADeadlinePassesThoughTheClientDoesNotRead) {
  Serving::Options options = LongContexts();
  options.server.calls.request_timeout = absl::Seconds(1);
  Serving serving(options);
  const auto stub = serving.NewStub(SmallWindow());
  OpenCall dead(*stub, TextRequest("a", kTokens));
  ASSERT_TRUE(Eventually([&] { return serving.scheduler->state().running == 1; }));
  EXPECT_TRUE(Eventually([&] { return !serving.scheduler->state().has_work(); }));
  EXPECT_LT(dead.ReadText().size(), kTokens);
  const grpc::Status status = dead.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(absl::StrContains(status.error_message(), "request timeout of 1s passed"))
      << status.error_message();
}

TEST(SlowReaderTest, ADrainIsNotHeldUpBeyondItsGrace) {
  Serving::Options options = LongContexts();
  options.server.grace = absl::Milliseconds(300);
  Serving serving(options);
  const auto stub = serving.NewStub(SmallWindow());
  OpenCall dead(*stub, TextRequest("a", kTokens));
  ASSERT_TRUE(Eventually([&] { return serving.scheduler->state().running == 1; }));
  serving.server->RequestStop();
  EXPECT_FALSE(serving.server->Drain());
  serving.drained = true;
  dead.ReadText();
  EXPECT_FALSE(dead.Finish().ok());
}

}  // namespace
}  // namespace penstock
