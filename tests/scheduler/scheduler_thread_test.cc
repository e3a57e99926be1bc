// The scheduler's own thread, against submitters, readers, cancellers and a stuck executor.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/scheduler/harness.h"

namespace penstock {
namespace {

using ::testing::IsEmpty;

// False when it does not become true in a long time.
template <typename Condition>
bool Eventually(Condition condition) {
  const absl::Time limit = absl::Now() + absl::Seconds(60);
  while (!condition()) {
    if (absl::Now() > limit) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

TEST(SchedulerThreadTest, ClientsOnManyThreads) {
  Harness harness;
  harness.executor.set_step_time(absl::Microseconds(50));
  std::atomic<int> steps{0};
  harness.executor.set_fault([&](const StepBatch&) {
    return ++steps % 101 == 0 ? absl::UnavailableError("now and then") : absl::OkStatus();
  });
  harness.scheduler.Start();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int32_t i = 0; i < 25; ++i) {
        Client client(MakeRequest(t * 100 + i, 1 + i, 12));
        const bool cancel = i % 5 == 4;
        if (!harness.Submit(client).ok()) ++wrong;
        if (cancel) client.stream()->Cancel();
        if (!client.AwaitEnd()) ++wrong;
        if (!cancel && client.tokens() != client.Expected(1000)) ++wrong;
        harness.scheduler.state();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  harness.scheduler.Stop(absl::InfiniteFuture());
  EXPECT_EQ(harness.scheduler.state().kv_blocks_used, 0);
  EXPECT_THAT(harness.executor.violations(), IsEmpty());
  EXPECT_EQ(harness.observer.finishes().size(), 100u);
}

TEST(SchedulerThreadTest, StopDrains) {
  Harness harness;
  harness.executor.set_step_time(absl::Milliseconds(1));
  harness.scheduler.Start();
  std::vector<std::unique_ptr<Client>> clients;
  for (int32_t i = 0; i < 12; ++i) {
    clients.push_back(std::make_unique<Client>(MakeRequest(i, 10, 20)));
    ASSERT_TRUE(harness.Submit(*clients.back()).ok());
  }
  harness.scheduler.Stop(absl::Now() + absl::Seconds(60));
  for (auto& client : clients) {
    ASSERT_TRUE(client->Poll());
    EXPECT_EQ(client->tokens(), client->Expected(1000));
  }
  EXPECT_EQ(harness.executor.aborts(), 0);
}

TEST(SchedulerThreadTest, StopAbortsAStuckExecutor) {
  Harness harness;
  harness.executor.Hold();
  harness.scheduler.Start();
  Client client(MakeRequest(1, 10, 20));
  ASSERT_TRUE(harness.Submit(client).ok());
  ASSERT_TRUE(Eventually([&] { return harness.scheduler.state().in_flight > 0; }));
  std::thread other([&] { harness.scheduler.Stop(absl::InfiniteFuture()); });
  harness.scheduler.Stop(absl::Now() + absl::Milliseconds(20));
  other.join();
  ASSERT_TRUE(client.Poll());
  EXPECT_EQ(client.end().status.code(), absl::StatusCode::kCancelled);
  EXPECT_GE(harness.executor.aborts(), 1);
}

TEST(SchedulerThreadTest, StopWhileIdleOrNeverStarted) {
  Harness idle;
  idle.scheduler.Start();
  idle.scheduler.Stop(absl::InfiniteFuture());
  idle.scheduler.Stop(absl::InfiniteFuture());
  Harness never_started;
  never_started.scheduler.Stop(absl::InfiniteFuture());
  never_started.scheduler.Start();  // too late, harmless
  Client client(MakeRequest(1, 4, 4));
  EXPECT_EQ(never_started.Submit(client).code(), absl::StatusCode::kUnavailable);
}

TEST(SchedulerThreadTest, WorkAfterIdlingWakesTheThread) {
  Harness harness;
  harness.scheduler.Start();
  for (int32_t i = 0; i < 5; ++i) {
    Client client(MakeRequest(i, 10, 5));
    ASSERT_TRUE(harness.Submit(client).ok());
    ASSERT_TRUE(client.AwaitEnd());
    EXPECT_EQ(client.tokens(), client.Expected(1000));
    absl::SleepFor(absl::Milliseconds(2));
  }
}

TEST(SchedulerThreadTest, CancellationIsSeenWhileTheExecutorIsDown) {
  Harness harness;
  harness.executor.set_fault([](const StepBatch&) { return absl::UnavailableError("gone"); });
  harness.executor.set_failing_restarts(1000000);
  harness.scheduler.Start();
  Client client(MakeRequest(1, 10, 5));
  ASSERT_TRUE(harness.Submit(client).ok());
  ASSERT_TRUE(Eventually([&] { return !harness.scheduler.state().healthy; }));
  client.stream()->Cancel();
  ASSERT_TRUE(client.AwaitEnd(absl::Seconds(20)));
  EXPECT_EQ(client.end().status.code(), absl::StatusCode::kCancelled);
}

TEST(SchedulerThreadTest, StateShowsAStepThatDoesNotEnd) {
  Harness harness;
  harness.executor.Hold();
  harness.scheduler.Start();
  Client client(MakeRequest(1, 10, 2));
  ASSERT_TRUE(harness.Submit(client).ok());
  ASSERT_TRUE(Eventually([&] { return harness.scheduler.state().running == 1; }));
  const absl::Time stuck_since = harness.scheduler.state().last_progress;
  absl::SleepFor(absl::Milliseconds(5));
  EXPECT_EQ(harness.scheduler.state().last_progress, stuck_since);
  harness.executor.Release();
  ASSERT_TRUE(client.AwaitEnd());
  EXPECT_GT(harness.scheduler.state().last_progress, stuck_since);
}

}  // namespace
}  // namespace penstock
