#include "scheduler/prefix_cache.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/scheduler/harness.h"

namespace penstock {
namespace {

std::vector<int32_t> Numbers(int32_t from, int32_t count) {
  std::vector<int32_t> numbers;
  for (int32_t i = 0; i < count; ++i) numbers.push_back(from + i);
  return numbers;
}

TEST(PrefixCacheTest, FindsTheLongestPrefixInWholeBlocks) {
  PrefixCache cache(8, 4);
  const std::vector<int32_t> tokens = Numbers(0, 12);
  const std::span all(tokens);
  auto node = cache.Insert(PrefixCache::Root(0), all.subspan(0, 4), 5);
  cache.Insert(node, all.subspan(4, 4), 2);
  EXPECT_EQ(cache.Find(0, all).blocks, (std::vector<int32_t>{5, 2}));
  EXPECT_EQ(cache.Find(0, all.first(7)).blocks, std::vector<int32_t>{5});
  EXPECT_TRUE(cache.Find(0, all.first(3)).blocks.empty());
  EXPECT_TRUE(cache.Find(0, all.subspan(4)).blocks.empty()) << "the same tokens elsewhere";
  EXPECT_TRUE(cache.Find(1, all).blocks.empty()) << "another salt";
}

TEST(PrefixCacheTest, AForgottenBlockCutsOffWhatFollowsIt) {
  PrefixCache cache(8, 2);
  const std::vector<int32_t> tokens = Numbers(0, 6);
  const std::span all(tokens);
  auto node = cache.Insert(PrefixCache::Root(0), all.subspan(0, 2), 0);
  node = cache.Insert(node, all.subspan(2, 2), 1);
  cache.Insert(node, all.subspan(4, 2), 2);
  cache.Forget(1);
  EXPECT_EQ(cache.Find(0, all).blocks, std::vector<int32_t>{0});
  // Other contents behind the same parent do not revive the old child.
  auto other = cache.Insert(cache.Find(0, all).node, all.subspan(2, 2), 4);
  EXPECT_EQ(cache.Find(0, all).blocks, (std::vector<int32_t>{0, 4}));
  cache.Insert(other, all.subspan(4, 2), 5);
  EXPECT_EQ(cache.Find(0, all).blocks, (std::vector<int32_t>{0, 4, 5}));
}

TEST(PrefixCacheTest, TheFirstOfTwoEqualBlocksStays) {
  PrefixCache cache(4, 2);
  const std::vector<int32_t> tokens = Numbers(0, 2);
  const auto node = cache.Insert(PrefixCache::Root(0), tokens, 1);
  EXPECT_EQ(cache.Insert(PrefixCache::Root(0), tokens, 3), node);
  EXPECT_TRUE(cache.Knows(1));
  EXPECT_FALSE(cache.Knows(3));
}

TEST(KvBlockPoolTest, KeptBlocksAreHandedOutLastAndTheOldestFirst) {
  KvBlockPool pool(4, 1);
  std::vector<int32_t> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(*pool.Allocate());
  for (const int32_t block : {2, 0, 3}) pool.Release(blocks[static_cast<size_t>(block)], true);
  pool.Release(blocks[1], false);
  EXPECT_EQ(pool.available(), 4);
  EXPECT_EQ(pool.kept(), 3);
  EXPECT_EQ(pool.used(), 0);
  pool.Share(blocks[0]);  // asked for again
  EXPECT_EQ(*pool.Allocate(), blocks[1]);
  EXPECT_EQ(*pool.Allocate(), blocks[2]);
  EXPECT_EQ(*pool.Allocate(), blocks[3]);
  EXPECT_FALSE(pool.Allocate().has_value());
  pool.Release(blocks[0], true);
  pool.ForgetKept();
  EXPECT_EQ(pool.kept(), 0);
  EXPECT_EQ(pool.available(), 1);
}

// Runs one request to its end.
TokenStream::Chunk Generate(Harness& harness, GenerateRequest request) {
  Client client(std::move(request));
  EXPECT_TRUE(harness.Submit(client).ok());
  harness.StepAll();
  EXPECT_TRUE(client.Poll());
  EXPECT_EQ(client.tokens(), client.Expected(harness.executor.info().vocab));
  return client.end();
}

TEST(PrefixReuseTest, ASecondRequestFindsTheFirstOnesPrompt) {
  Harness harness;
  const int32_t size = harness.executor.info().kv_block_size;
  const GenerateRequest request = MakeRequest(1, 5 * size + 1, 4);
  EXPECT_EQ(Generate(harness, request).times.cached_tokens, 0);
  EXPECT_EQ(Generate(harness, request).times.cached_tokens, 5 * size);
  GenerateRequest whole = MakeRequest(1, 5 * size, 4);
  EXPECT_EQ(Generate(harness, whole).times.cached_tokens, 4 * size)
      << "one token is to be computed";
  EXPECT_EQ(harness.scheduler.state().kv_blocks_used, 0);
  EXPECT_GE(harness.scheduler.state().kv_blocks_cached, 5);
  EXPECT_TRUE(harness.executor.violations().empty());
}

TEST(PrefixReuseTest, TheAnswerIsFoundToo) {
  Harness harness;
  const int32_t size = harness.executor.info().kv_block_size;
  GenerateRequest turn = MakeRequest(1, size, 2 * size);
  const std::vector<int32_t> answer = Client(turn).Expected(harness.executor.info().vocab);
  Generate(harness, turn);
  turn.prompt.insert(turn.prompt.end(), answer.begin(), answer.end());
  turn.prompt.push_back(7);
  turn.max_tokens = 4;
  // The last token of the answer was never fed.
  EXPECT_EQ(Generate(harness, turn).times.cached_tokens,
            (size + static_cast<int32_t>(answer.size()) - 1) / size * size);
}

TEST(PrefixReuseTest, SaltsAndOptOutsDoNotShare) {
  Harness harness;
  const int32_t size = harness.executor.info().kv_block_size;
  GenerateRequest request = MakeRequest(1, 4 * size, 4);
  request.keep_cached = false;
  Generate(harness, request);
  EXPECT_EQ(harness.scheduler.state().kv_blocks_cached, 0) << "nothing was left behind";
  request.keep_cached = true;
  EXPECT_EQ(Generate(harness, request).times.cached_tokens, 0);
  request.cache_salt = 1;
  EXPECT_EQ(Generate(harness, request).times.cached_tokens, 0);
  request.cache_salt = 0;
  EXPECT_EQ(Generate(harness, request).times.cached_tokens, 3 * size);
}

TEST(PrefixReuseTest, SamplesOfOnePromptComputeItOnce) {
  Harness harness;
  const ExecutorInfo& info = harness.executor.info();
  std::vector<std::unique_ptr<Client>> clients;
  for (int32_t i = 0; i < 4; ++i) {
    GenerateRequest request = MakeRequest(1, 4 * info.kv_block_size + 1, 6);
    request.sample_index = i;
    request.keep_cached = false;
    clients.push_back(std::make_unique<Client>(std::move(request)));
    ASSERT_TRUE(harness.Submit(*clients.back()).ok());
  }
  harness.StepAll();
  int64_t fed = 0;
  for (const StepReport& step : harness.observer.steps())
    fed += step.prefill_tokens + step.decode_tokens;
  for (const auto& client : clients) {
    ASSERT_TRUE(client->Poll());
    EXPECT_EQ(client->tokens(), client->Expected(info.vocab));
  }
  EXPECT_EQ(fed, 4 * info.kv_block_size + 4 * 6) << "the prompt's blocks once, then a row each";
  EXPECT_TRUE(harness.executor.violations().empty());
}

TEST(PrefixReuseTest, ARestartEmptiesTheCache) {
  Harness harness;
  const GenerateRequest request = MakeRequest(1, 40, 4);
  Generate(harness, request);
  int failures = 1;
  harness.executor.set_fault([&failures](const StepBatch&) {
    return failures-- > 0 ? absl::AbortedError("once") : absl::OkStatus();
  });
  Generate(harness, MakeRequest(2, 5, 2));
  EXPECT_EQ(Generate(harness, request).times.cached_tokens, 0);
  EXPECT_TRUE(harness.executor.violations().empty());
}

// Entries against a plain list of what was inserted and not forgotten.
TEST(PrefixCacheTest, AgreesWithAPlainListOnRandomWork) {
  std::mt19937 random(1);
  const auto draw = [&random](int32_t high) {
    return std::uniform_int_distribution<int32_t>(0, high)(random);
  };
  constexpr int32_t kBlocks = 12;
  PrefixCache cache(kBlocks, 2);
  std::vector<std::vector<int32_t>> paths(kBlocks);  // by block: all tokens up to its end
  for (int turn = 0; turn < 20000; ++turn) {
    std::vector<int32_t> tokens;
    for (int32_t i = draw(3) * 2 + 2; i > 0; --i) tokens.push_back(draw(1));
    const PrefixCache::Match match = cache.Find(0, tokens);
    for (size_t i = 0; i < match.blocks.size(); ++i)
      ASSERT_EQ(
          paths[static_cast<size_t>(match.blocks[i])],
          std::vector<int32_t>(tokens.begin(), tokens.begin() + 2 * static_cast<int64_t>(i + 1)));
    const size_t known = 2 * match.blocks.size();
    if (known == tokens.size()) continue;
    const int32_t block = draw(kBlocks - 1);
    if (std::find(match.blocks.begin(), match.blocks.end(), block) != match.blocks.end()) continue;
    cache.Forget(block);  // given to somebody else, who now fills it
    cache.Insert(match.node, std::span(tokens).subspan(known, 2), block);
    paths[static_cast<size_t>(block)].assign(tokens.begin(),
                                             tokens.begin() + static_cast<int64_t>(known) + 2);
    ASSERT_EQ(cache.Find(0, std::span(tokens).first(known + 2)).blocks.size(), known / 2 + 1);
  }
}

}  // namespace
}  // namespace penstock
