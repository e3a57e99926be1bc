// Cancellation and the end of a scheduler, turn by turn.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scheduler/harness.h"

namespace penstock {
namespace {

using ::testing::IsEmpty;

TEST(SchedulerCancelTest, ARunningSequenceIsFreedOnceNoStepNamesIt) {
  Harness harness;
  Client client(MakeRequest(1, 90, 20)), other(MakeRequest(2, 5, 30));
  ASSERT_TRUE(harness.Submit(client).ok());
  harness.scheduler.Step();  // the next chunks are in flight now
  ASSERT_GT(harness.scheduler.state().in_flight, 0);
  ASSERT_TRUE(harness.Submit(other).ok());
  client.stream()->Cancel();
  const int32_t in_flight = harness.scheduler.state().in_flight;
  harness.scheduler.Step();
  ASSERT_TRUE(client.Poll());
  EXPECT_EQ(client.end().status.code(), absl::StatusCode::kCancelled);
  for (int32_t i = 1; i < in_flight; ++i) harness.scheduler.Step();
  EXPECT_LE(harness.scheduler.state().kv_blocks_used, 2) << "only the other one's";
  harness.StepAll();
  ASSERT_TRUE(other.Poll());
  EXPECT_EQ(other.tokens(), other.Expected(1000));
  EXPECT_EQ(harness.scheduler.state().kv_blocks_used, 0);
  EXPECT_THAT(harness.executor.violations(), IsEmpty());
  ASSERT_EQ(harness.observer.finishes().size(), 2u);
  EXPECT_EQ(harness.observer.finishes()[0].status.code(), absl::StatusCode::kCancelled);
}

TEST(SchedulerCancelTest, AWaitingSequenceLeavesTheQueue) {
  Harness harness(SmallExecutorInfo(), {.max_queued = 1, .max_sequences = 1});
  Client running(MakeRequest(1, 5, 20)), waiting(MakeRequest(2, 5, 20)),
      next(MakeRequest(3, 5, 20));
  ASSERT_TRUE(harness.Submit(running).ok());
  ASSERT_TRUE(harness.Submit(waiting).ok());
  harness.scheduler.Step();
  EXPECT_FALSE(harness.Submit(next).ok());
  waiting.stream()->Cancel();
  harness.scheduler.Step();
  EXPECT_TRUE(waiting.Poll());
  EXPECT_TRUE(harness.Submit(next).ok());
  harness.StepAll();
  ASSERT_TRUE(next.Poll());
  EXPECT_EQ(next.tokens(), next.Expected(1000));
}

TEST(SchedulerCancelTest, CancelledBeforeItWasSeenCostsNothing) {
  Harness harness;
  Client client(MakeRequest(1, 5, 20));
  ASSERT_TRUE(harness.Submit(client).ok());
  client.stream()->Cancel();
  EXPECT_FALSE(harness.scheduler.Step());
  EXPECT_TRUE(client.Poll());
  EXPECT_EQ(harness.executor.steps_run(), 0);
}

TEST(SchedulerCancelTest, ThreeHundredStreamsCancelledAfterOneTokenLeaveNothing) {
  Harness harness;
  for (int32_t i = 0; i < 300; ++i) {
    Client client(MakeRequest(i, 1 + i % 60, 60));
    ASSERT_TRUE(harness.Submit(client).ok());
    while (client.tokens().empty()) {
      ASSERT_TRUE(harness.scheduler.Step());
      ASSERT_FALSE(client.Poll());
    }
    client.stream()->Cancel();
  }
  harness.StepAll();
  EXPECT_EQ(harness.scheduler.state().kv_blocks_used, 0);
  EXPECT_FALSE(harness.scheduler.state().has_work());
  EXPECT_EQ(harness.observer.finishes().size(), 300u);
  Client last(MakeRequest(7, 60, 60));
  ASSERT_TRUE(harness.Submit(last).ok());
  harness.StepAll();
  ASSERT_TRUE(last.Poll());
  EXPECT_EQ(last.tokens(), last.Expected(1000));
  EXPECT_THAT(harness.executor.violations(), IsEmpty());
}

TEST(SchedulerCancelTest, StopWithoutThreadFinishesWhatWasSubmitted) {
  Harness harness;
  Client client(MakeRequest(1, 40, 30));
  ASSERT_TRUE(harness.Submit(client).ok());
  harness.scheduler.Stop(absl::InfiniteFuture());
  ASSERT_TRUE(client.Poll());
  EXPECT_EQ(client.tokens(), client.Expected(1000));
  EXPECT_EQ(harness.Submit(client).code(), absl::StatusCode::kUnavailable);
}

TEST(SchedulerCancelTest, StopPastItsDeadlineCancelsEverything) {
  Harness harness;
  Client running(MakeRequest(1, 40, 60)), unseen(MakeRequest(2, 5, 20));
  ASSERT_TRUE(harness.Submit(running).ok());
  harness.scheduler.Step();
  ASSERT_TRUE(harness.Submit(unseen).ok());
  harness.scheduler.Stop(absl::InfinitePast());
  for (Client* client : {&running, &unseen}) {
    ASSERT_TRUE(client->Poll());
    EXPECT_EQ(client->end().status.code(), absl::StatusCode::kCancelled);
  }
  EXPECT_EQ(harness.scheduler.state().kv_blocks_used, 0);
  EXPECT_GE(harness.executor.aborts(), 1) << "steps were in flight";
  harness.scheduler.Stop(absl::InfinitePast());
}

}  // namespace
}  // namespace penstock
