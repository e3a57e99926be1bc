// Who goes first, who gives way, who is held up: priorities, deadlines, slow readers, prompts among
// decodes, static batches.

#include <gtest/gtest.h>

#include "tests/scheduler/harness.h"

namespace penstock {
namespace {

GenerateRequest WithPriority(GenerateRequest request, int32_t priority) {
  request.priority = priority;
  return request;
}

ExecutorInfo OneSlot() {
  ExecutorInfo info = SmallExecutorInfo();
  info.max_sequences = 1;
  return info;
}

TEST(PriorityTest, TheUrgentGoFirstAndEqualsInOrderOfArrival) {
  Harness harness(OneSlot());
  std::vector<std::unique_ptr<Client>> clients;
  for (const int32_t priority : {0, 5, -5, 0}) {
    clients.push_back(
        std::make_unique<Client>(WithPriority(MakeRequest(priority + 9, 4, 3), priority)));
    ASSERT_TRUE(harness.Submit(*clients.back()).ok());
  }
  std::vector<size_t> ended;
  while (harness.scheduler.Step())
    for (size_t i = 0; i < clients.size(); ++i)
      if (clients[i]->Poll() && std::find(ended.begin(), ended.end(), i) == ended.end())
        ended.push_back(i);
  EXPECT_EQ(ended, (std::vector<size_t>{2, 0, 3, 1}));
}

TEST(PriorityTest, AnUrgentNewcomerTakesTheSlotOfALessUrgent) {
  Harness harness(OneSlot());
  Client low(WithPriority(MakeRequest(1, 4, 30), 1)), high(WithPriority(MakeRequest(2, 4, 3), 0));
  ASSERT_TRUE(harness.Submit(low).ok());
  for (int i = 0; i < 10; ++i) harness.scheduler.Step();
  ASSERT_TRUE(harness.Submit(high).ok());
  for (int i = 0; i < 6; ++i) harness.scheduler.Step();
  EXPECT_TRUE(high.Poll());
  EXPECT_FALSE(low.Poll());
  harness.StepAll();
  ASSERT_TRUE(low.Poll());
  EXPECT_EQ(low.tokens(), low.Expected(harness.executor.info().vocab));
  EXPECT_EQ(low.end().times.preemptions, 1);
}

TEST(PriorityTest, NobodyGivesWayToAnEqual) {
  Harness harness(OneSlot());
  Client first(MakeRequest(1, 4, 20)), second(MakeRequest(2, 4, 3));
  ASSERT_TRUE(harness.Submit(first).ok());
  harness.scheduler.Step();
  ASSERT_TRUE(harness.Submit(second).ok());
  harness.StepAll();
  ASSERT_TRUE(first.Poll());
  EXPECT_EQ(first.end().times.preemptions, 0);
}

// One slot, and always somebody more urgent who waits: ageing lets the other through.
TEST(PriorityTest, UnderContinuousUrgentLoadTheOthersFinishToo) {
  SchedulerOptions options;
  options.ageing = absl::Milliseconds(20);
  Harness harness(OneSlot(), options);
  harness.executor.set_step_time(absl::Milliseconds(1));
  Client low(WithPriority(MakeRequest(1, 4, 10), 3));
  ASSERT_TRUE(harness.Submit(low).ok());
  std::vector<std::unique_ptr<Client>> urgent;
  const absl::Time limit = absl::Now() + absl::Seconds(30);
  int ended = 0;
  while (!low.Poll() && absl::Now() < limit) {
    while (urgent.size() < static_cast<size_t>(ended) + 2) {
      urgent.push_back(std::make_unique<Client>(MakeRequest(2, 4, 5)));
      ASSERT_TRUE(harness.Submit(*urgent.back()).ok());
    }
    harness.scheduler.Step();
    ended = 0;
    for (const auto& client : urgent) ended += client->Poll();
  }
  EXPECT_TRUE(low.Poll());
  EXPECT_GT(ended, 2) << "it had to wait for its turn";
}

TEST(DeadlineTest, ARunningSequenceEndsAtItsDeadline) {
  Harness harness;
  harness.executor.set_step_time(absl::Milliseconds(1));
  GenerateRequest request = MakeRequest(1, 5, 90);
  request.deadline = absl::Now() + absl::Milliseconds(20);
  Client client(std::move(request));
  ASSERT_TRUE(harness.Submit(client).ok());
  harness.StepAll();
  ASSERT_TRUE(client.Poll());
  EXPECT_EQ(client.end().status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(harness.scheduler.state().kv_blocks_used, 0);
}

TEST(DeadlineTest, AWaitingOneEndsWhenItMayWaitNoLonger) {
  Harness harness(OneSlot());
  Client running(MakeRequest(1, 5, 60));
  GenerateRequest request = MakeRequest(2, 5, 5);
  request.start_deadline = absl::Now() + absl::Milliseconds(5);
  Client client(std::move(request));
  ASSERT_TRUE(harness.Submit(running).ok());
  harness.scheduler.Step();
  ASSERT_TRUE(harness.Submit(client).ok());
  absl::SleepFor(absl::Milliseconds(10));
  harness.scheduler.Step();
  ASSERT_TRUE(client.Poll());
  EXPECT_EQ(client.end().status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(client.stream()->started());
  EXPECT_FALSE(running.Poll());
  EXPECT_TRUE(running.stream()->started());
}

TEST(SlowReaderTest, ItsSequencePausesAndTheOthersGoOn) {
  SchedulerOptions options;
  options.max_unread_tokens = 4;
  Harness harness(SmallExecutorInfo(), options);
  Client slow(MakeRequest(1, 5, 40)), fast(MakeRequest(2, 5, 40));
  ASSERT_TRUE(harness.Submit(slow).ok());
  ASSERT_TRUE(harness.Submit(fast).ok());
  for (int i = 0; i < 200; ++i) {
    harness.scheduler.Step();
    fast.Poll();
  }
  EXPECT_TRUE(fast.Poll());
  EXPECT_EQ(slow.stream()->unread(), 4);
  for (int i = 0; i < 200; ++i) {
    harness.scheduler.Step();
    slow.Poll();
  }
  ASSERT_TRUE(slow.Poll());
  EXPECT_EQ(slow.tokens(), slow.Expected(harness.executor.info().vocab));
}

TEST(SlowReaderTest, APausedSequenceGivesWayToWhoeverWaits) {
  SchedulerOptions options;
  options.max_unread_tokens = 4;
  Harness harness(OneSlot(), options);
  Client slow(MakeRequest(1, 5, 40)), next(MakeRequest(2, 5, 3));
  ASSERT_TRUE(harness.Submit(slow).ok());
  harness.StepAll();
  ASSERT_TRUE(harness.Submit(next).ok());
  harness.StepAll();
  EXPECT_TRUE(next.Poll());
  for (int i = 0; i < 200; ++i) {
    slow.Poll();
    harness.scheduler.Step();
  }
  ASSERT_TRUE(slow.Poll());
  EXPECT_EQ(slow.tokens(), slow.Expected(harness.executor.info().vocab));
}

class StaticBatchTest : public ::testing::TestWithParam<Batching> {};

TEST_P(StaticBatchTest, NobodyJoinsABatchThatDecodes) {
  SchedulerOptions options;
  options.batching = GetParam();
  Harness harness(SmallExecutorInfo(), options);
  const int32_t slots = harness.executor.info().max_sequences;
  std::vector<std::unique_ptr<Client>> clients;
  for (int32_t i = 0; i < 2 * slots; ++i) {
    clients.push_back(std::make_unique<Client>(MakeRequest(i, 5, 2 + i % 9)));
    ASSERT_TRUE(harness.Submit(*clients.back()).ok());
  }
  harness.StepAll();
  for (auto& client : clients) {
    ASSERT_TRUE(client->Poll());
    EXPECT_EQ(client->tokens(), client->Expected(harness.executor.info().vocab));
  }
  bool decoded = false;
  int32_t batches = 0, most = 0, last = 0;
  for (const StepReport& step : harness.observer.steps()) {
    if (step.prefill_sequences > 0) {
      EXPECT_EQ(step.decode_tokens, 0);
      if (decoded || batches == 0) ++batches;
      decoded = false;
    } else {
      decoded = true;
      most = std::max(most, step.sequences);
      last = step.sequences;
    }
  }
  EXPECT_EQ(batches, 2);
  EXPECT_EQ(last == most, GetParam() == Batching::kStaticPadded)
      << "the finished drop out, unless the batch is padded";
  EXPECT_TRUE(harness.executor.violations().empty());
  EXPECT_EQ(harness.scheduler.state().kv_blocks_used, 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, StaticBatchTest,
                         ::testing::Values(Batching::kStatic, Batching::kStaticPadded));

}  // namespace
}  // namespace penstock
