#include "bench/engine/stage_use.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

constexpr int64_t kMs = 1000000;

StepReport Step(StageTiming first, StageTiming last, int32_t prefill = 0, int32_t decode = 0) {
  StepReport step;
  step.prefill_tokens = prefill;
  step.decode_tokens = decode;
  step.stages = {first, last};
  return step;
}

StageTiming Between(int64_t begin, int64_t end, int64_t wait = 0, int64_t transfer = 0) {
  return {.begin = begin * kMs, .end = end * kMs, .transfer = transfer * kMs, .wait = wait * kMs};
}

// Two chunks on two even stages: each stage idles for a third of the time.
TEST(StageUse, OfAPipelineThatFillsAndDrains) {
  const std::vector<StepReport> steps = {Step(Between(0, 10), Between(10, 20)),
                                         Step(Between(10, 20), Between(20, 30))};
  const Window window = WindowOf(steps);
  EXPECT_DOUBLE_EQ(window.seconds(), 0.030);
  const StageUse use = MeasureUse(steps, window);
  EXPECT_DOUBLE_EQ(use.busy[0], 0.020);
  EXPECT_DOUBLE_EQ(use.MeanIdle(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(use.Imbalance(), 1);
}

TEST(StageUse, WaitingAndMovingAreNotWork) {
  const std::vector<StepReport> steps = {Step(Between(0, 10, 2, 1), Between(10, 20, 0, 4))};
  const StageUse use = MeasureUse(steps, {0, 20 * kMs});
  EXPECT_DOUBLE_EQ(use.busy[0], 0.007);
  EXPECT_DOUBLE_EQ(use.busy[1], 0.006);
  EXPECT_DOUBLE_EQ(use.Idle(0), 0.65);
  EXPECT_DOUBLE_EQ(use.Imbalance(), 7.0 / 6.5);
}

TEST(StageUse, AStepPartlyInTheWindowCountsForThatPart) {
  const std::vector<StepReport> steps = {Step(Between(0, 10), Between(10, 20)),
                                         Step(Between(10, 20), Between(20, 30))};
  const StageUse use = MeasureUse(steps, {5 * kMs, 15 * kMs});
  EXPECT_DOUBLE_EQ(use.busy[0], 0.010);
  EXPECT_DOUBLE_EQ(use.busy[1], 0.005);
}

TEST(StageUse, SteadyDecodeIsTheLongestRun) {
  const StageTiming any = Between(0, 1);
  std::vector<StepReport> steps;
  const auto add = [&](int count, int32_t prefill, int32_t decode) {
    for (int i = 0; i < count; ++i) steps.push_back(Step(any, any, prefill, decode));
  };
  add(3, 0, 8);
  add(1, 64, 8);
  add(5, 0, 8);
  add(4, 0, 7);
  const StepRange range = FindSteadyDecode(steps, 8);
  EXPECT_EQ(range.begin, 4u);
  EXPECT_EQ(range.end, 9u);
  EXPECT_EQ(FindSteadyDecode(steps, 9).end, FindSteadyDecode(steps, 9).begin);
}

}  // namespace
}  // namespace penstock
