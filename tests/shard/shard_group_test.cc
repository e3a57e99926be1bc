#include "shard/shard_group.h"

#include <algorithm>
#include <functional>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/shard/testing.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;

class ShardGroupTest : public ::testing::Test {
 protected:
  ShardGroupTest() {
    TestGroupOptions options;
    options.tensor = 2;
    options.pipeline = 2;
    executor_ = LoadTestGroup(options);
  }
  StepBatch GoodStep(int64_t step) {
    return MakeStep(*executor_, step, {{tokens_, 0, 6, {4, 5}}, {tokens_, 0, 20, {1, 2}}});
  }
  std::vector<int32_t> tokens_ = RandomTokens(20, 3);
  std::unique_ptr<Executor> executor_;
};

TEST_F(ShardGroupTest, GreedySamplesAreTheLargestLogits) {
  executor_->Launch(GoodStep(0));
  const auto result = executor_->Wait();
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->samples.size(), 26u);
  const auto vocab = static_cast<size_t>(executor_->info().vocab);
  for (size_t row = 0; row < 26; ++row) {
    const auto begin = result->logits.begin() + static_cast<std::ptrdiff_t>(row * vocab);
    const auto best = std::max_element(begin, begin + static_cast<std::ptrdiff_t>(vocab));
    EXPECT_EQ(result->samples[row].token, best - begin);
  }
}

TEST(ShardGroupVocabTest, IdsBeyondTheTokenizersVocabularyAreNeverDrawn) {
  const std::vector<int32_t> tokens = RandomTokens(60, 5);
  const auto draw = [&](int32_t vocab) {
    TestGroupOptions options;
    options.tensor = 2;
    options.vocab = vocab;
    const auto executor = LoadTestGroup(options);
    executor->Launch(MakeStep(*executor, 0, {{tokens, 0, 60, {0, 1, 2, 3}}}));
    const auto result = executor->Wait();
    EXPECT_TRUE(result.ok()) << result.status();
    int32_t largest = 0;
    for (const SampledToken& sample : result->samples) largest = std::max(largest, sample.token);
    return largest;
  };
  EXPECT_GE(draw(0), 110);
  EXPECT_LT(draw(110), 110);
}

struct Spoiling {
  const char* field;
  std::function<void(StepBatch&)> spoil;
};

TEST_F(ShardGroupTest, AMalformedStepIsRefusedByFieldAndTheNextEpochWorks) {
  const std::vector<Spoiling> spoilings = {
      {"tokens", [](StepBatch& b) { b.tokens[3] = -1; }},
      {"tokens", [](StepBatch& b) { b.tokens[3] = 1 << 20; }},
      {"tokens", [](StepBatch& b) { b.tokens.clear(); }},
      {"positions", [](StepBatch& b) { b.positions.pop_back(); }},
      {"positions", [](StepBatch& b) { b.positions[2] = 7; }},
      {"slots", [](StepBatch& b) { b.slots[1] = 1 << 30; }},
      {"slots", [](StepBatch& b) { b.slots[1] += 16; }},
      {"seq_begin", [](StepBatch& b) { b.seq_begin[1] = 40; }},
      {"seq_begin", [](StepBatch& b) { b.seq_begin.back() = 5; }},
      {"context_lens", [](StepBatch& b) { b.context_lens[0] = 1000; }},
      {"context_lens", [](StepBatch& b) { b.context_lens[0] = 0; }},
      {"block_begin", [](StepBatch& b) { b.block_begin[1] = -2; }},
      {"blocks", [](StepBatch& b) { b.blocks[0] = 64; }},
      {"block_begin",
       [](StepBatch& b) {  // more blocks than a full context has
         b.blocks.insert(b.blocks.end(), 9000, 3);
         b.block_begin.back() += 9000;
       }},
      {"samples", [](StepBatch& b) { b.samples[0].row = 26; }},
      {"samples", [](StepBatch& b) { b.samples[1].row = 0; }},
      {"samples", [](StepBatch& b) { b.samples[0].slot = 64; }},
      {"assignments", [](StepBatch& b) { b.assignments[0].slot = -1; }},
  };
  for (const Spoiling& spoiling : spoilings) {
    StepBatch batch = GoodStep(0);
    spoiling.spoil(batch);
    executor_->Launch(batch);
    const auto result = executor_->Wait();
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << spoiling.field;
    EXPECT_THAT(std::string(result.status().message()), HasSubstr(spoiling.field));
    ASSERT_TRUE(executor_->Restart().ok());
    executor_->Launch(GoodStep(0));
    ASSERT_TRUE(executor_->Wait().ok());
    ASSERT_TRUE(executor_->Restart().ok());
  }
}

TEST_F(ShardGroupTest, StepsOutOfOrderOfAnotherEpochOrWithAnotherPlanAreRefused) {
  executor_->Launch(GoodStep(1));
  EXPECT_THAT(std::string(executor_->Wait().status().message()), HasSubstr("expected step 0"));
  ASSERT_TRUE(executor_->Restart().ok());
  StepBatch old = GoodStep(0);
  --old.epoch;
  executor_->Launch(old);
  EXPECT_THAT(std::string(executor_->Wait().status().message()), HasSubstr("epoch"));
  ASSERT_TRUE(executor_->Restart().ok());
  StepBatch forged = GoodStep(0);
  forged.plan_hash = 1;
  executor_->Launch(forged);
  EXPECT_THAT(std::string(executor_->Wait().status().message()), HasSubstr("hash"));
}

TEST_F(ShardGroupTest, AbortIsStickyUntilRestartThenTheResultIsTheSame) {
  executor_->Launch(GoodStep(0));
  const auto before = executor_->Wait();
  ASSERT_TRUE(before.ok());
  const uint64_t epoch = executor_->epoch();
  std::thread aborter([&] { executor_->Abort(absl::UnavailableError("pulled the plug")); });
  aborter.join();
  executor_->Launch(GoodStep(1));
  EXPECT_EQ(executor_->Wait().status(), absl::UnavailableError("pulled the plug"));
  EXPECT_EQ(executor_->Wait().status(), absl::UnavailableError("pulled the plug"));
  ASSERT_TRUE(executor_->Restart().ok());
  EXPECT_EQ(executor_->epoch(), epoch + 1);
  executor_->Launch(GoodStep(0));
  const auto after = executor_->Wait();
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->logits, before->logits);
}

TEST_F(ShardGroupTest, AbortWhileStepsRunEndsThemAllPromptly) {
  for (int round = 0; round < 10; ++round) {
    for (int64_t step = 0; step < 3; ++step) executor_->Launch(GoodStep(step));
    executor_->Abort(absl::UnavailableError("gone"));
    EXPECT_FALSE(executor_->Wait().ok());
    ASSERT_TRUE(executor_->Restart().ok());
  }
}

TEST_F(ShardGroupTest, TooManyStepsInFlightAndWaitingForNothingAreErrors) {
  EXPECT_EQ(executor_->Wait().status().code(), absl::StatusCode::kFailedPrecondition);
  for (int64_t step = 0; step <= executor_->info().max_in_flight; ++step)
    executor_->Launch(GoodStep(step));
  EXPECT_EQ(executor_->Wait().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ShardGroupTest, AResultTellsWhatEachStageDidForIt) {
  for (int64_t step = 0; step < 3; ++step) executor_->Launch(GoodStep(step));
  int64_t previous_end[2] = {0, 0};
  for (int64_t step = 0; step < 3; ++step) {
    const auto result = executor_->Wait();
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->stages.size(), 2u);
    for (size_t stage = 0; stage < 2; ++stage) {
      const StageTiming& timing = result->stages[stage];
      EXPECT_GE(timing.begin, previous_end[stage]) << "one step after the other";
      EXPECT_GT(timing.transfer, 0);
      EXPECT_GE(timing.wait, 0);
      EXPECT_LE(timing.transfer + timing.wait, timing.end - timing.begin);
      previous_end[stage] = timing.end;
    }
    EXPECT_GT(result->stages[1].begin, result->stages[0].begin);
    EXPECT_GT(result->stages[1].end, result->stages[0].begin);
  }
}

TEST_F(ShardGroupTest, StatsTellBusyTimePerStageWithinActiveTime) {
  for (int64_t step = 0; step < 5; ++step) {
    executor_->Launch(GoodStep(step));
    ASSERT_TRUE(executor_->Wait().ok());
  }
  const PipelineStats stats = executor_->Stats();
  ASSERT_EQ(stats.stages.size(), 2u);
  EXPECT_LE(stats.active, stats.elapsed);
  for (const StageStats& stage : stats.stages) EXPECT_GT(stage.busy, 0);
  EXPECT_GT(stats.stages[0].transfer, 0);
}

}  // namespace
}  // namespace penstock
