#include "scheduler/sequence_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/scheduler/harness.h"

namespace penstock {
namespace {

std::unique_ptr<Sequence> MakeSequence(uint64_t order, int32_t length, int32_t max_tokens = 8) {
  auto sequence =
      std::make_unique<Sequence>(MakeRequest(static_cast<int32_t>(order), length, max_tokens),
                                 std::make_shared<TokenStream>(nullptr));
  sequence->precedence.id = order;
  return sequence;
}

std::vector<uint64_t> Orders(const std::deque<std::unique_ptr<Sequence>>& queue) {
  std::vector<uint64_t> orders;
  for (const auto& sequence : queue) orders.push_back(sequence->precedence.id);
  return orders;
}

TEST(KvBlockPoolTest, HandsOutEveryBlockOnceAndTakesThemBack) {
  KvBlockPool pool(5, 16);
  std::set<int32_t> blocks;
  for (int i = 0; i < 5; ++i) blocks.insert(*pool.Allocate());
  EXPECT_EQ(blocks.size(), 5u);
  EXPECT_EQ(*blocks.begin(), 0);
  EXPECT_EQ(*blocks.rbegin(), 4);
  EXPECT_FALSE(pool.Allocate().has_value());
  for (int32_t block : blocks) pool.Release(block, false);
  EXPECT_EQ(pool.used(), 0);
}

TEST(KvBlockPoolTest, ASharedBlockIsFreedByItsLastUser) {
  KvBlockPool pool(1, 16);
  const int32_t block = *pool.Allocate();
  pool.Share(block);
  pool.Release(block, false);
  EXPECT_FALSE(pool.Allocate().has_value());
  pool.Release(block, false);
  EXPECT_TRUE(pool.Allocate().has_value());
}

TEST(KvBlockPoolTest, RoundsTokensUpToBlocks) {
  const KvBlockPool pool(1, 16);
  EXPECT_EQ(pool.BlocksFor(0), 0);
  EXPECT_EQ(pool.BlocksFor(1), 1);
  EXPECT_EQ(pool.BlocksFor(16), 1);
  EXPECT_EQ(pool.BlocksFor(17), 2);
}

TEST(SequenceTableTest, StartsTheOldestWithASlotAndAllItsBlocks) {
  SequenceTable table(16, 4, 2, /*prefix_cache=*/false);
  for (uint64_t order : {0, 1, 2}) table.Enqueue(MakeSequence(order, 9));
  Sequence* first = table.Start(0);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->precedence.id, 0u);
  EXPECT_EQ(first->blocks.size(), 3u);
  ASSERT_NE(table.Start(0), nullptr);
  EXPECT_NE(table.running()[0]->slot, table.running()[1]->slot);
  EXPECT_EQ(table.Start(0), nullptr) << "two slots only";
}

TEST(SequenceTableTest, KeepsABlockForEachThatGrows) {
  SequenceTable table(4, 4, 4, /*prefix_cache=*/false);
  table.Enqueue(MakeSequence(0, 4, 8));
  table.Enqueue(MakeSequence(1, 12, 1));
  ASSERT_NE(table.Start(0), nullptr);
  EXPECT_EQ(table.Start(0), nullptr) << "3 free blocks, 1 of them for the first to grow";

  SequenceTable done_growing(4, 4, 4, /*prefix_cache=*/false);
  done_growing.Enqueue(MakeSequence(0, 3, 1));
  done_growing.Enqueue(MakeSequence(1, 11, 1));
  ASSERT_NE(done_growing.Start(0), nullptr);
  EXPECT_NE(done_growing.Start(0), nullptr) << "the first has all it will ever need";
}

TEST(SequenceTableTest, PreemptedWaitsAtItsOldPlace) {
  SequenceTable table(64, 4, 4, /*prefix_cache=*/false);
  for (uint64_t order = 0; order < 5; ++order) table.Enqueue(MakeSequence(order, 4));
  for (int i = 0; i < 4; ++i) table.Start(0);
  table.Preempt(*table.running()[3]);
  table.Preempt(*table.running()[1]);
  table.Preempt(*table.running()[1]);
  EXPECT_EQ(Orders(table.waiting()), (std::vector<uint64_t>{1, 2, 3, 4}));
  EXPECT_EQ(table.waiting()[0]->computed, 0);
  EXPECT_EQ(table.waiting()[0]->slot, -1);
  EXPECT_EQ(table.waiting()[0]->times.preemptions, 1);
  EXPECT_EQ(table.pool().used(), 1);
  EXPECT_EQ(table.free_slots(), 3);
}

TEST(SequenceTableTest, RetiringHoldsItsBlocksUntilNoStepNamesIt) {
  SequenceTable table(8, 4, 1, /*prefix_cache=*/false);
  table.Enqueue(MakeSequence(0, 4));
  Sequence* sequence = table.Start(0);
  sequence->in_flight = 1;
  table.Retire(*sequence);
  table.Reap();
  EXPECT_EQ(table.pool().used(), 1);
  EXPECT_EQ(table.free_slots(), 0);
  EXPECT_FALSE(table.empty());
  sequence->in_flight = 0;
  table.Reap();
  EXPECT_EQ(table.pool().used(), 0);
  EXPECT_EQ(table.free_slots(), 1);
  EXPECT_TRUE(table.empty());
}

TEST(SequenceTableTest, ForgettingStepsRequeuesInOrder) {
  SequenceTable table(64, 4, 3, /*prefix_cache=*/false);
  for (uint64_t order = 0; order < 5; ++order) table.Enqueue(MakeSequence(order, 4));
  for (int i = 0; i < 3; ++i) table.Start(0)->in_flight = 2;
  table.Retire(*table.running()[1]);
  table.ForgetSteps();
  EXPECT_EQ(Orders(table.waiting()), (std::vector<uint64_t>{0, 2, 3, 4}));
  EXPECT_TRUE(table.running().empty());
  EXPECT_EQ(table.pool().used(), 0);
  EXPECT_EQ(table.free_slots(), 3);
  EXPECT_EQ(table.waiting()[0]->in_flight, 0);
}

}  // namespace
}  // namespace penstock
