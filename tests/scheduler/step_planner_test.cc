#include "scheduler/step_planner.h"

#include <gtest/gtest.h>

#include <deque>
#include <set>

#include "tests/scheduler/harness.h"

namespace penstock {
namespace {

// Plans, launches and commits without an executor: tokens are all alike.
class Pipeline {
 public:
  Pipeline(const PlannerOptions& options, int32_t blocks, int32_t slots)
      : table(blocks, 4, slots, /*prefix_cache=*/true), planner(options) {}

  void Add(int32_t length, int32_t max_tokens) {
    auto sequence =
        std::make_unique<Sequence>(MakeRequest(static_cast<int32_t>(next_id_), length, max_tokens),
                                   std::make_shared<TokenStream>(nullptr));
    sequence->precedence = {.due = 0, .id = next_id_++};
    table.Enqueue(std::move(sequence));
  }
  // Launches until the planner wants no more.
  void Fill() {
    while (true) {
      StepPlan plan = planner.Plan(table, {static_cast<int32_t>(steps.size()), sampling_});
      preempted += plan.preempted;
      if (plan.run.empty()) return;
      bool samples = false;
      for (const PlannedSequence& planned : plan.run) {
        table.Advance(*planned.sequence, planned.tokens);
        ++planned.sequence->in_flight;
        samples = samples || planned.samples;
      }
      sampling_ += samples;
      steps.push_back(std::move(plan));
    }
  }
  void CommitOldest() {
    StepPlan plan = std::move(steps.front());
    steps.pop_front();
    bool samples = false;
    for (const PlannedSequence& planned : plan.run) {
      --planned.sequence->in_flight;
      samples = samples || planned.samples;
      if (!planned.samples) continue;
      planned.sequence->tokens.push_back(1);
      planned.sequence->failures = 0;
      if (planned.sequence->Ending() != FinishReason::kNone) table.Retire(*planned.sequence);
    }
    sampling_ -= samples;
  }

  SequenceTable table;
  StepPlanner planner;
  std::deque<StepPlan> steps;
  int32_t preempted = 0;

 private:
  uint64_t next_id_ = 0;
  int32_t sampling_ = 0;
};

PlannerOptions Options(int32_t stages, int32_t step_tokens = 512, int32_t chunk = 256) {
  return {.stages = stages,
          .max_in_flight = stages + 1,
          .max_step_tokens = step_tokens,
          .prefill_chunk = chunk};
}

class GroupTest : public ::testing::TestWithParam<std::pair<int32_t, int32_t>> {};

TEST_P(GroupTest, DecodesFillEveryStageInEqualGroups) {
  const auto [stages, sequences] = GetParam();
  Pipeline pipeline(Options(stages), 4096, 64);
  for (int32_t i = 0; i < sequences; ++i) pipeline.Add(4, 1000);
  for (int32_t turn = 0; turn < 6 * stages; ++turn) {
    pipeline.Fill();
    pipeline.CommitOldest();
  }
  for (int32_t turn = 0; turn < 3 * stages; ++turn) {
    pipeline.Fill();
    ASSERT_EQ(static_cast<int32_t>(pipeline.steps.size()), std::min(stages, sequences));
    int32_t in_flight = 0;
    for (const StepPlan& step : pipeline.steps) {
      EXPECT_LE(step.decode_tokens, (sequences + stages - 1) / stages);
      in_flight += step.decode_tokens;
    }
    EXPECT_EQ(in_flight, sequences) << "somebody was left out";
    pipeline.CommitOldest();
  }
}

INSTANTIATE_TEST_SUITE_P(StagesAndSequences, GroupTest,
                         ::testing::Values(std::pair(1, 1), std::pair(1, 7), std::pair(2, 1),
                                           std::pair(2, 2), std::pair(2, 5), std::pair(3, 4),
                                           std::pair(4, 3), std::pair(4, 4), std::pair(4, 6),
                                           std::pair(4, 64), std::pair(7, 15)));

TEST(StepPlannerTest, TheChunksOfOnePromptAreInFlightTogether) {
  Pipeline pipeline(Options(2), 4096, 8);
  pipeline.Add(512, 8);
  pipeline.Fill();
  ASSERT_EQ(pipeline.steps.size(), 3u) << "stages + 1";
  for (const StepPlan& step : pipeline.steps) {
    EXPECT_EQ(step.prefill_tokens, 128) << "a quarter: twice as many shares as stages";
    EXPECT_FALSE(step.run[0].samples);
  }
  pipeline.CommitOldest();
  pipeline.Fill();
  EXPECT_TRUE(pipeline.steps.back().run[0].samples);
  EXPECT_EQ(pipeline.steps.back().prefill_tokens, 128);
  pipeline.CommitOldest();
  pipeline.Fill();
  EXPECT_EQ(pipeline.steps.size(), 2u) << "nothing to plan before the sampled token is committed";
}

TEST(StepPlannerTest, SharesOfManyPromptsAreEqual) {
  Pipeline pipeline(Options(2, 2048), 4096, 64);
  for (int i = 0; i < 4; ++i) pipeline.Add(1024, 8);
  std::vector<int32_t> shares;
  while (shares.size() < 4) {
    pipeline.Fill();
    shares.push_back(pipeline.steps.front().prefill_tokens);
    pipeline.CommitOldest();
  }
  EXPECT_EQ(shares, (std::vector<int32_t>{512, 512, 512, 512})) << "as a prompt of 2048 would be";
}

TEST(StepPlannerTest, DecodesGoFirstAndPromptsFillTheRest) {
  Pipeline pipeline(Options(1, 16, 8), 4096, 64);
  for (int i = 0; i < 6; ++i) pipeline.Add(1, 100);
  pipeline.Fill();
  pipeline.CommitOldest();
  pipeline.Add(40, 4);
  pipeline.Add(40, 4);
  pipeline.Fill();
  ASSERT_EQ(pipeline.steps.size(), 1u) << "no step in the way of those that decode";
  EXPECT_EQ(pipeline.steps[0].decode_tokens, 6);
  EXPECT_EQ(pipeline.steps[0].prefill_tokens, 8) << "of all prompts together, while others decode";
  EXPECT_EQ(pipeline.steps[0].run.back().sequence->precedence.id, 6u);
}

TEST(StepPlannerTest, UnevenGroupsBecomeEvenAndNobodyIsLeftOut) {
  Pipeline pipeline(Options(3), 4096, 64);
  pipeline.Add(4, 1000);
  pipeline.Fill();
  pipeline.CommitOldest();
  pipeline.Fill();  // one decodes; then eight come at once
  for (int i = 0; i < 8; ++i) pipeline.Add(4, 1000);
  for (int turn = 0; turn < 9; ++turn) {
    pipeline.Fill();
    for (const StepPlan& step : pipeline.steps) EXPECT_LE(step.decode_tokens, 3);
    pipeline.CommitOldest();
  }
  std::vector<int32_t> before;
  for (const auto& sequence : pipeline.table.running()) before.push_back(sequence->generated());
  for (int turn = 0; turn < 30; ++turn) {
    pipeline.Fill();
    pipeline.CommitOldest();
  }
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_GE(pipeline.table.running()[i]->generated() - before[i], 9) << "sequence " << i;
}

TEST(StepPlannerTest, ABudgetBelowTheNumberOfDecodesIsKept) {
  Pipeline pipeline(Options(2, 4, 4), 4096, 64);
  for (int i = 0; i < 20; ++i) pipeline.Add(1, 10);
  for (int turn = 0; turn < 100 && !pipeline.table.empty(); ++turn) {
    pipeline.Fill();
    for (const StepPlan& step : pipeline.steps)
      ASSERT_LE(step.decode_tokens + step.prefill_tokens, 4);
    pipeline.CommitOldest();
  }
  EXPECT_TRUE(pipeline.table.empty());
}

TEST(StepPlannerTest, ALonePromptAfterABurstIsCutFinelyAgain) {
  Pipeline pipeline(Options(2, 2048), 4096, 64);
  for (int i = 0; i < 4; ++i) pipeline.Add(1024, 1);
  while (!pipeline.table.empty()) {
    pipeline.Fill();
    pipeline.CommitOldest();
  }
  pipeline.Fill();
  pipeline.Add(512, 8);
  pipeline.Fill();
  EXPECT_EQ(pipeline.steps.front().prefill_tokens, 128);
}

TEST(StepPlannerTest, TheNewestIdleSequenceGivesWayToTheOldest) {
  Pipeline pipeline(Options(1), 6, 8);  // 6 blocks of 4
  for (int i = 0; i < 3; ++i) pipeline.Add(4, 20);
  for (int turn = 0; turn < 6; ++turn) {
    pipeline.Fill();
    pipeline.CommitOldest();
  }
  EXPECT_GE(pipeline.preempted, 1);
  EXPECT_EQ(pipeline.table.running()[0]->precedence.id, 0u);
  EXPECT_GE(pipeline.table.running()[0]->generated(), 5);
  ASSERT_FALSE(pipeline.table.waiting().empty());
  EXPECT_EQ(pipeline.table.waiting().back()->precedence.id, 2u) << "the newest one waits";
}

TEST(StepPlannerTest, ASequenceInFlightIsNeverPreempted) {
  Pipeline pipeline(Options(2), 4, 8);
  pipeline.Add(8, 8);
  pipeline.Add(1, 8);
  for (int turn = 0; turn < 200 && !pipeline.table.empty(); ++turn) {
    pipeline.Fill();
    for (const StepPlan& step : pipeline.steps)
      for (const PlannedSequence& planned : step.run) ASSERT_GE(planned.sequence->slot, 0);
    ASSERT_FALSE(pipeline.steps.empty());
    pipeline.CommitOldest();
  }
  EXPECT_TRUE(pipeline.table.empty());
  EXPECT_EQ(pipeline.table.pool().used(), 0);
}

TEST(StepPlannerTest, ASuspectRunsAlone) {
  Pipeline pipeline(Options(2), 4096, 8);
  for (int i = 0; i < 4; ++i) pipeline.Add(8, 100);
  pipeline.table.waiting()[1]->failures = StepPlanner::kSuspectFailures;
  std::set<uint64_t> alone;
  for (int turn = 0; turn < 8; ++turn) {
    pipeline.Fill();
    for (const StepPlan& step : pipeline.steps) {
      for (const PlannedSequence& planned : step.run) {
        if (planned.sequence->failures < StepPlanner::kSuspectFailures) continue;
        EXPECT_EQ(step.run.size(), 1u);
        EXPECT_EQ(pipeline.steps.size(), 1u);
        alone.insert(planned.sequence->precedence.id);
      }
    }
    pipeline.CommitOldest();
  }
  EXPECT_EQ(alone, std::set<uint64_t>{1});
  EXPECT_EQ(pipeline.table.running().size(), 4u) << "afterwards everybody runs";
}

TEST(StepPlannerTest, LaterChunksAttendToMoreAndAreShorter) {
  PlannerOptions options = Options(2, 8192, 2048);
  options.context_cost = 1.0f / 512;
  Pipeline pipeline(options, 4096, 8);
  pipeline.Add(2048, 8);
  std::vector<double> costs;
  std::vector<int32_t> chunks;
  double context = 0;
  while (context < 2048) {
    pipeline.Fill();
    const int32_t tokens = pipeline.steps.front().prefill_tokens;
    chunks.push_back(tokens);
    costs.push_back(tokens * (1 + (context + tokens / 2.0) / 512));
    context += tokens;
    pipeline.CommitOldest();
  }
  ASSERT_EQ(chunks.size(), 4u) << "twice as many as stages";
  EXPECT_GT(chunks.front(), 2 * chunks.back());
  for (const double cost : costs) EXPECT_NEAR(cost, costs.front(), 0.02 * costs.front());
}

TEST(StepPlannerTest, WhatJoinsDecodesIsBoundedByTheirDelay) {
  Pipeline pipeline(Options(1, 512, 256), 4096, 8);
  pipeline.Add(4, 100);
  pipeline.Fill();
  pipeline.CommitOldest();
  pipeline.planner.set_mixed_prefill(40);
  pipeline.Add(400, 4);
  pipeline.Fill();
  EXPECT_EQ(pipeline.steps.front().decode_tokens, 1);
  EXPECT_EQ(pipeline.steps.front().prefill_tokens, 40);
}

TEST(StepPlannerTest, WhoWillShareAPromptWaitsForItAndOthersOvertake) {
  Pipeline pipeline(Options(1, 64, 32), 4096, 8);
  auto add = [&](int32_t key) {
    auto sequence =
        std::make_unique<Sequence>(MakeRequest(key, 65, 8), std::make_shared<TokenStream>(nullptr));
    sequence->precedence.id = static_cast<uint64_t>(pipeline.table.waiting().size());
    pipeline.table.Enqueue(std::move(sequence));
  };
  for (const int32_t key : {1, 1, 2}) add(key);
  pipeline.Fill();
  ASSERT_FALSE(pipeline.steps.empty());
  std::set<uint64_t> first;
  for (const PlannedSequence& planned : pipeline.steps.front().run)
    first.insert(planned.sequence->precedence.id);
  EXPECT_EQ(first, (std::set<uint64_t>{0, 2}));
}

}  // namespace
}  // namespace penstock
