#include <algorithm>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/batcher/harness.h"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

bool Holds(const StepBatch& batch, int32_t token) {
  return std::find(batch.tokens.begin(), batch.tokens.end(), token) != batch.tokens.end();
}

// Turns, moving the clock so that restarts come due.
void StepThrough(BatcherHarness& harness, int turns = 200) {
  for (int i = 0; i < turns; ++i)
    if (!harness.batcher.Step()) harness.now += absl::Milliseconds(50);
}

TEST(BatcherRecoveryTest, AFailedStepIsRunAgain) {
  BatcherHarness harness;
  int failures = 1;
  harness.executor.on_wait = [&](const StepBatch&) {
    return failures-- > 0 ? absl::InternalError("rank 1: a bus error") : absl::OkStatus();
  };
  std::vector<std::unique_ptr<Asker>> askers;
  for (int i = 0; i < 20; ++i) askers.push_back(harness.Ask(MakeInput(i, 8)));
  StepThrough(harness);
  for (auto& asker : askers) {
    EXPECT_TRUE(asker->right(3));
    EXPECT_EQ(asker->closings(), 1);
  }
  EXPECT_EQ(harness.executor.restarts(), 1);
  EXPECT_EQ(harness.executor.aborts(), 1);
  EXPECT_THAT(harness.executor.violations(), IsEmpty());
  EXPECT_EQ(harness.observer.finishes().size(), 20u);
}

TEST(BatcherRecoveryTest, WhatMakesStepsFailIsFoundAloneAndEnds) {
  BatcherHarness harness;
  constexpr int32_t kPoison = 999999;
  std::vector<size_t> poisoned_sizes;
  harness.executor.on_wait = [&](const StepBatch& batch) {
    if (!Holds(batch, kPoison)) return absl::OkStatus();
    poisoned_sizes.push_back(batch.context_lens.size());
    return absl::InternalError("rank 0: a bad input");
  };
  std::vector<std::unique_ptr<Asker>> askers;
  for (int i = 0; i < 6; ++i) askers.push_back(harness.Ask(MakeInput(i == 3 ? kPoison : i, 8)));
  StepThrough(harness);
  for (size_t i = 0; i < askers.size(); ++i) {
    if (i == 3) {
      EXPECT_EQ(askers[i]->status().code(), absl::StatusCode::kInternal);
      EXPECT_THAT(std::string(askers[i]->status().message()), HasSubstr("a bad input"));
    } else {
      EXPECT_TRUE(askers[i]->right(3)) << i << askers[i]->status();
    }
  }
  ASSERT_EQ(poisoned_sizes.size(), 3u);
  EXPECT_GT(poisoned_sizes[0], 1u);
  EXPECT_EQ(poisoned_sizes[2], 1u);  // the last time alone
  EXPECT_THAT(harness.executor.violations(), IsEmpty());
}

TEST(BatcherRecoveryTest, ALossWithNothingToDoIsRepairedBeforeTheNextRequest) {
  BatcherHarness harness;
  harness.executor.Abort(absl::UnavailableError("a rank died while idle"));
  harness.batcher.Step();
  EXPECT_EQ(harness.executor.restarts(), 1);
  EXPECT_TRUE(harness.batcher.state().healthy);
  auto asker = harness.Ask(MakeInput(1, 4));
  for (int i = 0; i < 10 && !asker->ended(); ++i) harness.batcher.Step();
  EXPECT_TRUE(asker->right(3)) << asker->status();
}

TEST(BatcherRecoveryTest, UnavailableWhenItDoesNotComeBack) {
  BatcherHarness harness({.recovery_timeout = absl::Seconds(2)});
  harness.executor.set_failing_restarts(1000000);
  harness.executor.on_wait = [](const StepBatch&) { return absl::InternalError("gone"); };
  auto asker = harness.Ask(MakeInput(1, 4));
  const absl::Time begin = harness.now;
  while (!asker->ended() && harness.now < begin + absl::Seconds(100)) {
    harness.batcher.Step();
    harness.now += absl::Milliseconds(10);
    if (!asker->ended() && harness.now > begin + absl::Milliseconds(100)) {
      EXPECT_FALSE(harness.batcher.state().healthy);
    }
  }
  EXPECT_EQ(asker->status().code(), absl::StatusCode::kUnavailable);
  EXPECT_GE(harness.now - begin, absl::Seconds(2));
  EXPECT_LE(harness.now - begin, absl::Seconds(3));
  Asker next(MakeInput(2, 4));
  EXPECT_EQ(harness.Submit(next).code(), absl::StatusCode::kUnavailable);
}

TEST(BatcherRecoveryTest, AnAnswerOfTheWrongSizeIsAFailure) {
  ExecutorInfo info = OneStageInfo();
  class Short final : public Executor {
   public:
    explicit Short(const ExecutorInfo& info) : inner_(info) {}
    const ExecutorInfo& info() const override { return inner_.info(); }
    void Launch(StepBatch batch) override { inner_.Launch(std::move(batch)); }
    absl::StatusOr<StepResult> Wait() override {
      absl::StatusOr<StepResult> result = inner_.Wait();
      if (result.ok() && once_) result->outputs.pop_back();
      if (result.ok()) once_ = false;
      return result;
    }
    void Abort(absl::Status why) override { inner_.Abort(std::move(why)); }
    absl::Status Restart() override { return inner_.Restart(); }
    uint64_t epoch() const override { return inner_.epoch(); }
    PipelineStats Stats() const override { return inner_.Stats(); }

   private:
    FakeEncodeExecutor inner_;
    bool once_ = true;
  };
  Short executor(info);
  RecordingBatchObserver observer;
  RequestBatcher batcher({}, executor, observer);
  Asker asker(MakeInput(1, 4));
  ASSERT_TRUE(batcher.Submit(asker.request(), asker.reply()).ok());
  for (int i = 0; i < 10; ++i) batcher.Step();
  EXPECT_TRUE(asker.right(3));
}

TEST(BatcherThreadTest, AnswersManyThreadsAndStops) {
  FakeEncodeExecutor executor(SmallEncoderInfo());
  executor.set_step_time(absl::Microseconds(200));
  RecordingBatchObserver observer;
  RequestBatcher batcher({.max_queue_delay = absl::Microseconds(300)}, executor, observer);
  batcher.Start();
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        Asker asker(MakeInput(t * 1000 + i, 1 + i % 40));
        if (!batcher.Submit(asker.request(), asker.reply()).ok()) continue;
        if (asker.AwaitEnd() && asker.right(3)) ++right;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right.load(), 200);
  batcher.Stop(absl::Now() + absl::Seconds(10));
  EXPECT_THAT(executor.violations(), IsEmpty());
  Asker late(MakeInput(1, 4));
  EXPECT_EQ(batcher.Submit(late.request(), late.reply()).code(), absl::StatusCode::kUnavailable);
}

TEST(BatcherThreadTest, TheDelayAndTheTimeoutNeedNoFurtherRequest) {
  FakeEncodeExecutor executor(OneStageInfo());
  RecordingBatchObserver observer;
  RequestBatcher batcher({.max_queue_delay = absl::Milliseconds(300)}, executor, observer);
  batcher.Start();
  Asker held(MakeInput(1, 4));
  EncodeRequest request = MakeInput(2, 4);
  request.start_deadline = absl::Now() + absl::Milliseconds(20);
  Asker expiring(request);
  const absl::Time begin = absl::Now();
  ASSERT_TRUE(batcher.Submit(held.request(), held.reply()).ok());
  ASSERT_TRUE(batcher.Submit(expiring.request(), expiring.reply()).ok());
  ASSERT_TRUE(expiring.AwaitEnd());
  EXPECT_EQ(expiring.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(held.ended());
  ASSERT_TRUE(held.AwaitEnd());
  EXPECT_TRUE(held.right(3));
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(300));
}

TEST(BatcherThreadTest, StopEndsWhatIsStuck) {
  FakeEncodeExecutor executor(OneStageInfo());
  RecordingBatchObserver observer;
  RequestBatcher batcher({}, executor, observer);
  batcher.Start();
  executor.Hold();
  Asker running(MakeInput(1, 4)), waiting(MakeInput(2, 4));
  ASSERT_TRUE(batcher.Submit(running.request(), running.reply()).ok());
  while (!running.reply()->started()) absl::SleepFor(absl::Milliseconds(1));
  ASSERT_TRUE(batcher.Submit(waiting.request(), waiting.reply()).ok());
  batcher.Stop(absl::Now() + absl::Milliseconds(20));
  EXPECT_EQ(running.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(waiting.status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace penstock
