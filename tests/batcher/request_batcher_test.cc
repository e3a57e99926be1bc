#include "scheduler/request_batcher.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/batcher/harness.h"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::unique_ptr<Asker>> AskMany(BatcherHarness& harness, int count, int32_t length = 4,
                                            int32_t first_key = 1) {
  std::vector<std::unique_ptr<Asker>> askers;
  for (int i = 0; i < count; ++i) askers.push_back(harness.Ask(MakeInput(first_key + i, length)));
  return askers;
}

TEST(RequestBatcherTest, ASingleRequestGoesAtOnceWhenNoDelayIsSet) {
  BatcherHarness harness({}, OneStageInfo());
  auto asker = harness.Ask(MakeInput(7, 5));
  EXPECT_TRUE(harness.batcher.Step());
  EXPECT_TRUE(asker->right(3));
  EXPECT_EQ(asker->closings(), 1);
  EXPECT_EQ(asker->times().arrival, harness.now);
  const auto batches = harness.observer.batches();
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(batches[0].reason, FlushReason::kIdle);
  EXPECT_EQ(batches[0].requests, 1);
  EXPECT_EQ(batches[0].tokens, 5);
  ASSERT_EQ(batches[0].shares.size(), 1u);
  EXPECT_EQ(batches[0].shares[0].tokens, 5);
  EXPECT_FALSE(harness.batcher.Step());
  EXPECT_THAT(harness.executor.violations(), IsEmpty());
}

TEST(RequestBatcherTest, TypesReachTheExecutorAlsoBesideInputsWithoutAny) {
  BatcherHarness harness({}, OneStageInfo());
  EncodeRequest pair = MakeInput(1, 4);
  pair.types = {0, 0, 1, 1};
  auto first = harness.Ask(MakeInput(2, 3));
  auto second = harness.Ask(pair);
  harness.StepAll();
  EXPECT_TRUE(first->right(3));
  EXPECT_TRUE(second->right(3));
  EXPECT_THAT(harness.executor.batch_sizes(), ElementsAre(2));
}

TEST(RequestBatcherTest, TheDelayCountsFromTheOldest) {
  BatcherHarness harness({.max_queue_delay = absl::Milliseconds(10)}, OneStageInfo());
  auto first = harness.Ask(MakeInput(1, 4));
  EXPECT_FALSE(harness.batcher.Step());
  harness.now += absl::Milliseconds(9);
  auto second = harness.Ask(MakeInput(2, 4));
  EXPECT_FALSE(harness.batcher.Step());
  harness.now += absl::Milliseconds(1);
  EXPECT_TRUE(harness.batcher.Step());
  EXPECT_TRUE(first->right(3) && second->right(3));
  EXPECT_EQ(harness.observer.batches()[0].reason, FlushReason::kTimeout);
}

TEST(RequestBatcherTest, AFullBatchDoesNotWaitForTheDelay) {
  BatcherHarness harness({.max_batch = 4, .max_queue_delay = absl::Seconds(10)}, OneStageInfo());
  auto askers = AskMany(harness, 3);
  EXPECT_FALSE(harness.batcher.Step());
  askers.push_back(harness.Ask(MakeInput(9, 4)));
  EXPECT_TRUE(harness.batcher.Step());
  for (auto& asker : askers) EXPECT_TRUE(asker->right(3));
  EXPECT_EQ(harness.observer.batches()[0].reason, FlushReason::kFull);
}

TEST(RequestBatcherTest, TheTokenBudgetFillsABatchToo) {
  BatcherHarness harness({.max_batch_tokens = 10, .max_queue_delay = absl::Seconds(10)},
                         OneStageInfo());
  auto askers = AskMany(harness, 2, 5);
  EXPECT_TRUE(harness.batcher.Step());
  EXPECT_TRUE(askers[0]->right(3) && askers[1]->right(3));
  EXPECT_EQ(harness.observer.batches()[0].reason, FlushReason::kFull);
}

TEST(RequestBatcherTest, APreferredSizeIsSentAtOnceAndTheRestWaits) {
  BatcherHarness harness({.max_queue_delay = absl::Seconds(10), .preferred_sizes = {4, 2}},
                         OneStageInfo());
  auto askers = AskMany(harness, 1);
  EXPECT_FALSE(harness.batcher.Step());
  auto more = AskMany(harness, 4, 4, 10);
  EXPECT_TRUE(harness.batcher.Step());
  EXPECT_FALSE(harness.batcher.Step());
  EXPECT_FALSE(more[3]->ended());
  const auto batches = harness.observer.batches();
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(batches[0].requests, 4);
  EXPECT_EQ(batches[0].reason, FlushReason::kPreferred);
  harness.now += absl::Seconds(10);
  EXPECT_TRUE(harness.batcher.Step());
  EXPECT_TRUE(more[3]->right(3));
}

TEST(RequestBatcherTest, WhileTheStageIsBusyABatchGathers) {
  BatcherHarness harness({}, OneStageInfo());
  std::vector<std::unique_ptr<Asker>> later;
  harness.executor.on_wait = [&](const StepBatch&) {
    if (later.empty()) later = AskMany(harness, 5, 4, 10);  // while the first step runs
    return absl::OkStatus();
  };
  auto first = harness.Ask(MakeInput(1, 4));
  harness.StepAll();
  EXPECT_THAT(harness.executor.batch_sizes(), ElementsAre(1, 5));
}

// A request's own time in the queue is short though others keep the stages busy: every stage gets
// its part of what waits.
TEST(RequestBatcherTest, SeveralStagesShareWhatWaits) {
  ExecutorInfo info = SmallEncoderInfo();
  info.max_step_tokens = 1024;
  info.max_sequences = 64;
  BatcherHarness harness({}, info);
  auto askers = AskMany(harness, 24, 10);  // 240 tokens for 3 steps
  harness.StepAll();
  EXPECT_THAT(harness.executor.batch_sizes(), ElementsAre(8, 8, 8));
  EXPECT_THAT(harness.executor.violations(), IsEmpty());
}

TEST(RequestBatcherTest, AShortOneFillsUpBehindALongOneThatDoesNotFit) {
  BatcherHarness harness({.max_batch_tokens = 40}, OneStageInfo());
  auto head = harness.Ask(MakeInput(1, 30));
  auto large = harness.Ask(MakeInput(2, 30));
  auto small = harness.Ask(MakeInput(3, 10));
  harness.batcher.Step();
  EXPECT_TRUE(head->ended() && small->ended());
  EXPECT_FALSE(large->ended());
  harness.StepAll();
  EXPECT_TRUE(large->right(3));
}

TEST(RequestBatcherTest, ALongRequestRunsAloneBeyondTheBatchTokens) {
  BatcherHarness harness({.max_batch_tokens = 8}, OneStageInfo());
  auto large = harness.Ask(MakeInput(1, 48));
  auto small = harness.Ask(MakeInput(2, 4));
  harness.StepAll();
  EXPECT_TRUE(large->right(3) && small->right(3));
  EXPECT_THAT(harness.executor.batch_sizes(), ElementsAre(1, 1));
}

TEST(RequestBatcherTest, TheSmallerPriorityGoesFirst) {
  BatcherHarness harness({.max_batch = 1}, OneStageInfo());
  EncodeRequest urgent = MakeInput(3, 4), patient = MakeInput(1, 4);
  urgent.priority = -1;
  patient.priority = 1;
  std::vector<int32_t> order;
  harness.executor.on_launch = [&](const StepBatch& batch) { order.push_back(batch.tokens[0]); };
  auto a = harness.Ask(patient), b = harness.Ask(MakeInput(2, 4)), c = harness.Ask(urgent);
  harness.StepAll();
  EXPECT_THAT(order, ElementsAre(3, 2, 1));
}

// Whoever waits gains a level per `ageing`: under endless urgent load its turn still comes.
TEST(RequestBatcherTest, AgeingSavesThePatientFromStarving) {
  BatcherHarness harness({.max_batch = 1, .ageing = absl::Seconds(1)}, OneStageInfo());
  EncodeRequest patient = MakeInput(1, 4);
  patient.priority = 5;
  auto waiting = harness.Ask(patient);
  const absl::Time begin = harness.now;
  auto urgent = AskMany(harness, 4, 4, 1000);  // so many wait at any time
  for (int i = 0; i < 200 && !waiting->ended(); ++i) {
    urgent.push_back(harness.Ask(MakeInput(100 + i, 4)));
    harness.batcher.Step();
    harness.now += absl::Milliseconds(100);
  }
  ASSERT_TRUE(waiting->right(3));
  EXPECT_GE(harness.now - begin, absl::Seconds(4));
  EXPECT_LE(harness.now - begin, absl::Seconds(7));
}

TEST(RequestBatcherTest, WithoutAgeingPrioritiesAreStrict) {
  BatcherHarness harness({.max_batch = 1, .ageing = absl::ZeroDuration()}, OneStageInfo());
  EncodeRequest patient = MakeInput(1, 4);
  patient.priority = 1;
  auto waiting = harness.Ask(patient);
  auto urgent = AskMany(harness, 4, 4, 1000);
  for (int i = 0; i < 100; ++i) {
    urgent.push_back(harness.Ask(MakeInput(100 + i, 4)));
    harness.batcher.Step();
    harness.now += absl::Seconds(10);
  }
  EXPECT_FALSE(waiting->ended());
}

TEST(RequestBatcherTest, AFullQueueRefuses) {
  BatcherHarness harness({.max_batch = 2, .max_queued = 2}, OneStageInfo());
  std::vector<std::unique_ptr<Asker>> later;
  absl::Status refused;
  harness.executor.on_wait = [&](const StepBatch&) {
    if (!later.empty()) return absl::OkStatus();
    later = AskMany(harness, 2, 4, 10);  // they wait while the stage is busy
    Asker another(MakeInput(20, 4));
    refused = harness.Submit(another);
    return absl::OkStatus();
  };
  auto first = AskMany(harness, 2);
  harness.StepAll();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("2 requests wait"));
  EXPECT_TRUE(harness.submitted_ok);
  EXPECT_TRUE(later[1]->right(3));
}

TEST(RequestBatcherTest, AQueueTimeoutRejects) {
  BatcherHarness harness({.max_queue_delay = absl::Seconds(10)}, OneStageInfo());
  EncodeRequest request = MakeInput(1, 4);
  request.start_deadline = harness.now + absl::Seconds(1);
  auto asker = harness.Ask(request);
  harness.batcher.Step();
  harness.now += absl::Milliseconds(999);
  harness.batcher.Step();
  EXPECT_FALSE(asker->ended());
  harness.now += absl::Milliseconds(1);
  harness.batcher.Step();
  EXPECT_EQ(asker->status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(asker->status().message()), HasSubstr("1s"));
  EXPECT_EQ(harness.observer.finishes().size(), 1u);
}

TEST(RequestBatcherTest, AQueueTimeoutDelaysBehindAllThatWait) {
  BatcherHarness harness({.max_batch = 1}, OneStageInfo());
  EncodeRequest request = MakeInput(1, 4);
  request.start_deadline = harness.now + absl::Seconds(1);
  request.on_timeout = TimeoutAction::kDelay;
  std::vector<int32_t> order;
  harness.executor.on_launch = [&](const StepBatch& batch) { order.push_back(batch.tokens[0]); };
  auto late = harness.Ask(request);
  auto others = AskMany(harness, 3, 4, 10);
  harness.now += absl::Seconds(2);
  harness.StepAll();
  EXPECT_THAT(order, ElementsAre(10, 11, 12, 1));
  EXPECT_TRUE(late->right(3));
}

TEST(RequestBatcherTest, ADeadlineHoldsEvenForTheDelayed) {
  BatcherHarness harness({.max_queue_delay = absl::Seconds(10)}, OneStageInfo());
  EncodeRequest request = MakeInput(1, 4);
  request.start_deadline = harness.now + absl::Seconds(1);
  request.deadline = harness.now + absl::Seconds(2);
  request.on_timeout = TimeoutAction::kDelay;
  auto asker = harness.Ask(request);
  harness.now += absl::Seconds(1);
  harness.batcher.Step();
  EXPECT_FALSE(asker->ended());
  harness.now += absl::Seconds(1);
  harness.batcher.Step();
  EXPECT_EQ(asker->status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(RequestBatcherTest, CancelledOnesAreDroppedAndCounted) {
  BatcherHarness harness({}, OneStageInfo());
  auto asker = harness.Ask(MakeInput(1, 4));
  auto other = harness.Ask(MakeInput(2, 4));
  asker->reply()->Cancel();
  harness.StepAll();
  EXPECT_EQ(asker->status().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(other->right(3));
  EXPECT_THAT(harness.executor.batch_sizes(), ElementsAre(1));
  EXPECT_EQ(harness.observer.finishes().size(), 2u);
}

TEST(RequestBatcherTest, ResultsKeepTheOrderOfArrivalWhenAsked) {
  BatcherHarness harness({.max_batch_tokens = 40, .preserve_order = true}, OneStageInfo());
  auto head = harness.Ask(MakeInput(1, 30));
  auto large = harness.Ask(MakeInput(2, 30));
  auto small = harness.Ask(MakeInput(3, 10));  // runs beside the first one
  harness.batcher.Step();
  EXPECT_TRUE(head->ended());
  EXPECT_FALSE(small->ended());
  harness.batcher.Step();
  EXPECT_TRUE(large->right(3) && small->right(3));
}

TEST(RequestBatcherTest, AnOlderFailureHoldsNobodyBack) {
  BatcherHarness harness({.max_batch_tokens = 40, .preserve_order = true}, OneStageInfo());
  auto head = harness.Ask(MakeInput(1, 30));
  auto large = harness.Ask(MakeInput(2, 30));
  auto small = harness.Ask(MakeInput(3, 10));
  harness.batcher.Step();
  large->reply()->Cancel();
  harness.batcher.Step();
  EXPECT_EQ(large->status().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(small->right(3));
}

TEST(RequestBatcherTest, RefusesWhatWouldBeLateByTheEstimate) {
  BatcherHarness harness({.max_batch = 1, .refuse_late = true}, OneStageInfo());
  harness.executor.on_wait = [&](const StepBatch&) {
    harness.now += absl::Seconds(1);
    return absl::OkStatus();
  };
  auto known = AskMany(harness, 3);
  harness.StepAll();
  EncodeRequest request = MakeInput(9, 4);
  request.deadline = harness.now + absl::Milliseconds(500);
  Asker late(request);
  EXPECT_EQ(harness.Submit(late).code(), absl::StatusCode::kResourceExhausted);
  request.deadline = harness.now + absl::Milliseconds(1500);
  Asker in_time(request);
  EXPECT_TRUE(harness.Submit(in_time).ok());
  harness.StepAll();
  EXPECT_TRUE(in_time.right(3));
}

TEST(RequestBatcherTest, RefusesWhatCouldNeverRun) {
  BatcherHarness harness;
  Asker empty{EncodeRequest()}, large(MakeInput(1, 49)), bad(MakeInput(-1, 2));
  EncodeRequest types = MakeInput(1, 3);
  types.types = {0};
  Asker uneven(types);
  for (Asker* asker : {&empty, &large, &bad, &uneven})
    EXPECT_EQ(harness.Submit(*asker).code(), absl::StatusCode::kInvalidArgument);
  harness.StepAll();
  EXPECT_EQ(large.closings(), 0);
}

TEST(RequestBatcherTest, WhereNobodyElseIsToBeExpectedNobodyIsHeldBack) {
  BatcherHarness harness({.max_queue_delay = absl::Milliseconds(5)}, OneStageInfo());
  const auto held_back = [&] {
    auto asker = harness.Ask(MakeInput(1, 4));
    harness.batcher.Step();
    const bool waits = !asker->ended();
    harness.now += absl::Milliseconds(5);
    harness.StepAll();
    EXPECT_TRUE(asker->right(3));
    return waits;
  };
  EXPECT_TRUE(held_back()) << "nothing is known yet";
  for (int i = 0; i < 10; ++i) {
    harness.now += absl::Milliseconds(20);
    held_back();
  }
  EXPECT_FALSE(held_back()) << "one in 25 ms";
  harness.now += absl::Hours(1);
  auto burst = AskMany(harness, 8);
  harness.StepAll();
  EXPECT_TRUE(held_back()) << "a burst is noticed after the longest silence";
}

TEST(RequestBatcherTest, AResultThatIsNotFiniteFailsItsOwnRequestOnly) {
  BatcherHarness harness({}, OneStageInfo());
  harness.executor.set_not_finite(7);
  auto bad = harness.Ask(MakeInput(7, 4));
  auto good = harness.Ask(MakeInput(8, 4));
  harness.StepAll();
  EXPECT_EQ(bad->status().code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(good->right(3));
}

}  // namespace
}  // namespace penstock
