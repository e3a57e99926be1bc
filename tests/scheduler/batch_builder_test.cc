#include "scheduler/batch_builder.h"

#include <gtest/gtest.h>

#include "tests/scheduler/harness.h"

namespace penstock {
namespace {

using Ints = std::vector<int32_t>;

Sequence MakeRunning(GenerateRequest request, Ints blocks, int32_t slot) {
  Sequence sequence(std::move(request), nullptr);
  sequence.blocks = std::move(blocks);
  sequence.slot = slot;
  return sequence;
}

TEST(BatchBuilderTest, PacksAChunkAndADecode) {
  GenerateRequest prompt;
  prompt.prompt = {10, 11, 12, 13, 14, 15, 16};
  prompt.max_tokens = 4;
  Sequence chunk = MakeRunning(prompt, {7, 2}, 3);
  chunk.computed = 2;

  GenerateRequest decoding;
  decoding.prompt = {20, 21};
  decoding.max_tokens = 9;
  decoding.min_tokens = 4;
  decoding.sampling.repetition_penalty = 1.5f;
  Sequence decode = MakeRunning(decoding, {5}, 0);
  decode.tokens = {20, 21, 22, 23};
  decode.computed = 3;

  StepPlan plan;
  plan.run = {{&chunk, 3, false}, {&decode, 1, true}};
  const StepBatch batch = BuildBatch(plan, 4, 17, 6);
  EXPECT_EQ(batch.step, 17);
  EXPECT_EQ(batch.epoch, 6u);
  EXPECT_EQ(batch.plan_hash, HashPlan(batch));
  EXPECT_EQ(batch.tokens, (Ints{12, 13, 14, 23}));
  EXPECT_EQ(batch.positions, (Ints{2, 3, 4, 3}));
  EXPECT_EQ(batch.slots, (Ints{30, 31, 8, 23}));
  EXPECT_EQ(batch.seq_begin, (Ints{0, 3, 4}));
  EXPECT_EQ(batch.context_lens, (Ints{5, 4}));
  EXPECT_EQ(batch.block_begin, (Ints{0, 2, 3}));
  EXPECT_EQ(batch.blocks, (Ints{7, 2, 5}));
  ASSERT_EQ(batch.samples.size(), 1u);
  EXPECT_EQ(batch.samples[0].row, 3);
  EXPECT_EQ(batch.samples[0].slot, 0);
  EXPECT_EQ(batch.samples[0].position, 4);
  EXPECT_TRUE(batch.samples[0].mask_stops) << "2 of at least 4 tokens";
  ASSERT_EQ(batch.assignments.size(), 2u);
  EXPECT_EQ(batch.assignments[0].slot, 3);
  EXPECT_TRUE(batch.assignments[0].prompt.empty()) << "no penalties, nothing to count";
  EXPECT_EQ(batch.assignments[1].prompt, (Ints{20, 21}));
  EXPECT_EQ(batch.assignments[1].generated, (Ints{22, 23}));
}

TEST(BatchBuilderTest, AnAssignedSlotIsNotSentAgainNorUnwrittenBlocks) {
  Sequence sequence = MakeRunning(MakeRequest(1, 12, 4), {1, 2, 3}, 0);
  sequence.slot_assigned = true;
  StepPlan plan;
  plan.run = {{&sequence, 4, false}};
  const StepBatch batch = BuildBatch(plan, 4, 0, 1);
  EXPECT_TRUE(batch.assignments.empty());
  EXPECT_EQ(batch.blocks, Ints{1});
}

}  // namespace
}  // namespace penstock
