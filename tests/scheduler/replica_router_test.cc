#include "scheduler/replica_router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <vector>

#include "tests/scheduler/harness.h"

namespace penstock {
namespace {

using ::testing::IsEmpty;

constexpr int32_t kBlock = 16;

// Answers as it is told and counts what it got.
class FakeGenerator final : public Generator {
 public:
  absl::Status Submit(GenerateRequest request, std::shared_ptr<TokenStream>) override {
    if (!answer.ok()) return answer;
    status.pending_tokens += static_cast<int64_t>(request.prompt.size()) + request.max_tokens;
    got.push_back(std::move(request));
    return absl::OkStatus();
  }
  SchedulerState state() const override { return status; }

  absl::Status answer;
  SchedulerState status;
  std::vector<GenerateRequest> got;
};

class RouterTest : public testing::Test {
 protected:
  absl::Status Submit(const GenerateRequest& request) {
    return router_.Submit(request, std::make_shared<TokenStream>(nullptr));
  }

  std::array<FakeGenerator, 3> replicas_;
  ReplicaRouter router_{{.block_tokens = kBlock, .max_imbalance = 1000},
                        {{&replicas_[0]}, {&replicas_[1]}, {&replicas_[2]}}};
};

TEST_F(RouterTest, TheLeastOutstandingTokensWin) {
  std::mt19937 random(1);
  int64_t largest = 0;
  for (int32_t i = 0; i < 300; ++i) {
    const auto length = static_cast<int32_t>(1 + random() % 200);
    const auto tokens = static_cast<int32_t>(1 + random() % 100);
    largest = std::max<int64_t>(largest, length + tokens);
    ASSERT_TRUE(Submit(MakeRequest(i, length, tokens)).ok());
    const auto [least, most] =
        std::minmax({replicas_[0].status.pending_tokens, replicas_[1].status.pending_tokens,
                     replicas_[2].status.pending_tokens});
    EXPECT_LE(most - least, largest);
  }
}

TEST_F(RouterTest, APromptGoesWhereItsBeginningWasSeen) {
  ASSERT_TRUE(Submit(MakeRequest(1, 100, 10)).ok());
  ASSERT_EQ(replicas_[0].got.size(), 1u);
  for (const int32_t length : {16, 40, 100, 300}) {  // the same beginning: one block at least
    ASSERT_TRUE(Submit(MakeRequest(1, length, 10)).ok());
  }
  EXPECT_EQ(replicas_[0].got.size(), 5u);
  GenerateRequest salted = MakeRequest(1, 100, 10);
  salted.cache_salt = 7;
  ASSERT_TRUE(Submit(salted).ok());
  ASSERT_TRUE(Submit(MakeRequest(1, 15, 10)).ok());  // nothing of it can be cached
  EXPECT_EQ(replicas_[0].got.size(), 5u);
}

TEST_F(RouterTest, AffinityEndsWhereTheImbalanceIsTooLarge) {
  ASSERT_TRUE(Submit(MakeRequest(1, 100, 10)).ok());
  replicas_[0].status.pending_tokens = 1000;
  ASSERT_TRUE(Submit(MakeRequest(1, 100, 10)).ok());
  EXPECT_EQ(replicas_[0].got.size(), 2u);
  replicas_[0].status.pending_tokens = 1001;
  ASSERT_TRUE(Submit(MakeRequest(1, 100, 10)).ok());
  EXPECT_EQ(replicas_[0].got.size(), 2u);
  EXPECT_EQ(replicas_[1].got.size(), 1u);  // which has seen it now
  replicas_[0].status.pending_tokens = 0;
  ASSERT_TRUE(Submit(MakeRequest(1, 100, 10)).ok());
  EXPECT_EQ(replicas_[1].got.size(), 2u);
}

TEST_F(RouterTest, TheSamplesOfACallStayTogether) {
  for (int32_t call = 0; call < 9; ++call) {
    GenerateRequest request = MakeRequest(5, call % 2 == 0 ? 4 : 100, 900);  // the same prompts
    request.arrival = absl::UnixEpoch() + absl::Seconds(call);
    request.cache_salt = static_cast<uint64_t>(call);
    for (request.sample_index = 0; request.sample_index < 6; ++request.sample_index)
      ASSERT_TRUE(Submit(request).ok());
  }
  for (const FakeGenerator& replica : replicas_) {
    EXPECT_EQ(replica.got.size(), 18u);  // three calls each, whole ones
    for (size_t i = 0; i < replica.got.size(); ++i)
      EXPECT_EQ(replica.got[i].sample_index, static_cast<int32_t>(i % 6));
  }
}

TEST_F(RouterTest, ARefusalGoesOnToTheNext) {
  replicas_[0].answer = absl::ResourceExhaustedError("full");
  replicas_[1].answer = absl::UnavailableError("lost");
  ASSERT_TRUE(Submit(MakeRequest(1, 10, 10)).ok());
  EXPECT_EQ(replicas_[2].got.size(), 1u);
  replicas_[2].answer = absl::UnavailableError("lost, too");
  EXPECT_EQ(Submit(MakeRequest(2, 10, 10)).code(), absl::StatusCode::kResourceExhausted);
  replicas_[0].answer = absl::UnavailableError("gone");
  EXPECT_EQ(Submit(MakeRequest(3, 10, 10)).code(), absl::StatusCode::kUnavailable);
  replicas_[0].answer = absl::InvalidArgumentError("never");
  EXPECT_EQ(Submit(MakeRequest(4, 10, 10)).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(RouterTest, AnUnhealthyReplicaIsTheLastResort) {
  ASSERT_TRUE(Submit(MakeRequest(1, 100, 10)).ok());
  replicas_[0].status.healthy = false;
  replicas_[0].status.pending_tokens = 0;
  replicas_[1].status.pending_tokens = 500;
  replicas_[2].status.pending_tokens = 600;
  ASSERT_TRUE(Submit(MakeRequest(1, 100, 10)).ok());  // though it knows the prompt
  EXPECT_EQ(replicas_[1].got.size(), 1u);
  for (size_t i : {1u, 2u}) replicas_[i].status.healthy = false;
  ASSERT_TRUE(Submit(MakeRequest(2, 100, 10)).ok());  // it may come back in time
}

TEST_F(RouterTest, TheStateIsOfAllAndOneThatCanServeIsEnough) {
  const absl::Time old = absl::Now() - absl::Hours(1);
  for (FakeGenerator& replica : replicas_) {
    replica.status = {.running = 2, .waiting = 1, .kv_blocks_used = 3, .kv_blocks_total = 8};
    replica.status.pending_tokens = 5;
    replica.status.last_progress = old;
  }
  SchedulerState state = router_.state();
  EXPECT_EQ(state.running, 6);
  EXPECT_EQ(state.waiting, 3);
  EXPECT_EQ(state.kv_blocks_used, 9);
  EXPECT_EQ(state.kv_blocks_total, 24);
  EXPECT_EQ(state.pending_tokens, 15);
  EXPECT_TRUE(state.healthy);
  EXPECT_EQ(state.last_progress, old);  // all of them are stuck

  replicas_[1].status.running = replicas_[1].status.waiting = 0;
  EXPECT_GT(router_.state().last_progress, old);  // one has nothing to do
  replicas_[1].status.healthy = false;
  state = router_.state();
  EXPECT_TRUE(state.healthy);
  EXPECT_EQ(state.last_progress, old);
  for (FakeGenerator& replica : replicas_) replica.status.healthy = false;
  EXPECT_FALSE(router_.state().healthy);
}

TEST(RouterEstimateTest, AHopelessReplicaIsPassedOver) {
  RecordingObserver observer;
  GenerationEstimate estimate(observer);
  absl::Time now = absl::UnixEpoch();
  for (int i = 0; i < 100; ++i) {  // a sequence leaves every second
    StepReport step{.decode_tokens = 4};
    step.launched = now;
    step.committed = now += absl::Seconds(1);
    estimate.OnStep(step);
    FinishReport finish;
    finish.times.first_scheduled = now;
    estimate.OnFinish(finish);
  }
  FakeGenerator busy, other;
  busy.status.waiting = 60;
  other.status.pending_tokens = 100000;
  ReplicaRouter router({}, {{&busy, &estimate}, {&other, &estimate}});
  GenerateRequest request = MakeRequest(1, 10, 10);
  request.deadline = absl::Now() + absl::Seconds(20);
  ASSERT_TRUE(router.Submit(request, std::make_shared<TokenStream>(nullptr)).ok());
  EXPECT_EQ(other.got.size(), 1u);
  other.status.waiting = 60;
  EXPECT_EQ(router.Submit(request, std::make_shared<TokenStream>(nullptr)).code(),
            absl::StatusCode::kResourceExhausted);
  request.deadline = absl::InfiniteFuture();
  ASSERT_TRUE(router.Submit(request, std::make_shared<TokenStream>(nullptr)).ok());
  EXPECT_EQ(busy.got.size() + other.got.size(), 2u);
}

TEST(PrefixAffinityTest, TheOldestKeysAreForgotten) {
  PrefixAffinity affinity(3);
  affinity.Remember(std::vector<uint64_t>{1, 2}, 0);
  affinity.Remember(std::vector<uint64_t>{3}, 1);
  affinity.Remember(std::vector<uint64_t>{1}, 2);  // is young again
  affinity.Remember(std::vector<uint64_t>{4}, 3);
  EXPECT_EQ(affinity.size(), 3u);
  EXPECT_FALSE(affinity.Find(std::vector<uint64_t>{2}).has_value());
  EXPECT_EQ(affinity.Find(std::vector<uint64_t>{9, 1, 4}), 2u);
}

TEST(PrefixAffinityTest, KeysNamePrefixesOfWholeBlocks) {
  const GenerateRequest request = MakeRequest(1, 100, 1);
  const std::vector<uint64_t> keys = PrefixKeys(request, kBlock);
  ASSERT_EQ(keys.size(), 3u);  // 64, 32 and 16 tokens
  GenerateRequest other = request;
  other.prompt[40] += 1;
  const std::vector<uint64_t> other_keys = PrefixKeys(other, kBlock);
  EXPECT_NE(other_keys[0], keys[0]);
  EXPECT_EQ(other_keys[1], keys[1]);
  EXPECT_EQ(other_keys[2], keys[2]);
  EXPECT_THAT(PrefixKeys(MakeRequest(1, 15, 1), kBlock), IsEmpty());
}

// Real schedulers on fake executors, with clients that come, cancel and share prompts. One of the
// executors fails now and then.
TEST(ReplicaRouterPropertyTest, ResultsAreThoseOfSoloRuns) {
  constexpr size_t kReplicas = 3;
  std::vector<std::unique_ptr<Harness>> harnesses;
  std::vector<ReplicaRouter::Replica> routes;
  for (size_t i = 0; i < kReplicas; ++i) {
    harnesses.push_back(std::make_unique<Harness>());
    routes.push_back({&harnesses.back()->scheduler});
  }
  std::atomic<int> steps{0};
  harnesses[1]->executor.set_fault([&](const StepBatch&) {
    return ++steps % 37 == 0 ? absl::UnavailableError("now and then") : absl::OkStatus();
  });
  const int32_t block = harnesses[0]->executor.info().kv_block_size;
  ReplicaRouter router({.block_tokens = block, .max_imbalance = 200}, routes);

  std::mt19937 random(3);
  std::vector<std::unique_ptr<Client>> clients;
  for (int32_t i = 0; i < 400; ++i) {
    // A third of the prompts begin alike.
    GenerateRequest request =
        MakeRequest(random() % 3 == 0 ? 1 : 100 + i, static_cast<int32_t>(1 + random() % 40),
                    static_cast<int32_t>(1 + random() % 12));
    request.sampling.seed = random();
    request.arrival = absl::Now();
    clients.push_back(std::make_unique<Client>(std::move(request)));
    ASSERT_TRUE(router.Submit(clients.back()->request(), clients.back()->stream()).ok());
    if (random() % 10 == 0) clients.back()->stream()->Cancel();
    for (const auto& harness : harnesses)
      for (unsigned turns = random() % 4; turns > 0; --turns) harness->scheduler.Step();
  }
  for (const auto& harness : harnesses) harness->scheduler.Stop(absl::InfiniteFuture());
  for (const auto& client : clients) {
    ASSERT_TRUE(client->Poll());
    if (client->stream()->cancelled()) continue;
    EXPECT_TRUE(client->end().status.ok()) << client->end().status;
    EXPECT_EQ(client->tokens(), client->Expected(1000));
  }
  for (const auto& harness : harnesses) {
    EXPECT_THAT(harness->executor.violations(), IsEmpty());
    EXPECT_GT(harness->observer.finishes().size(), clients.size() / kReplicas / 3);
  }
  EXPECT_EQ(router.state().kv_blocks_used, 0);
}

// Groups of prompts with a long common beginning, in random order: almost every one goes where its
// beginning is, and the load stays within the bound.
TEST(ReplicaRouterPropertyTest, SharedPrefixesStayTogetherAndTheLoadIsBalanced) {
  std::array<FakeGenerator, 4> replicas;
  constexpr int64_t kBound = 2000;
  ReplicaRouter router({.block_tokens = kBlock, .max_imbalance = kBound},
                       {{&replicas[0]}, {&replicas[1]}, {&replicas[2]}, {&replicas[3]}});
  std::mt19937 random(5);
  int hits = 0, later = 0;
  std::vector<int> home(40, -1);
  for (int32_t i = 0; i < 4000; ++i) {
    const auto group = random() % home.size();
    GenerateRequest request = MakeRequest(static_cast<int32_t>(group), 128, 20);
    for (int32_t j = 0; j < 16; ++j) request.prompt.push_back(i);
    request.arrival = absl::UnixEpoch() + absl::Seconds(i);
    ASSERT_TRUE(router.Submit(request, std::make_shared<TokenStream>(nullptr)).ok());
    int at = -1;
    for (size_t r = 0; r < replicas.size(); ++r) {
      if (replicas[r].got.empty()) continue;
      at = static_cast<int>(r);
      replicas[r].got.clear();
    }
    if (home[group] >= 0) {
      ++later;
      if (home[group] == at) ++hits;
    }
    home[group] = at;
    int64_t least = INT64_MAX, most = 0;
    for (FakeGenerator& replica : replicas) {  // each works off its part
      least = std::min(least, replica.status.pending_tokens);
      most = std::max(most, replica.status.pending_tokens);
      replica.status.pending_tokens = std::max<int64_t>(0, replica.status.pending_tokens - 45);
    }
    EXPECT_LE(most - least, kBound + 164);
  }
  EXPECT_GT(hits, later * 9 / 10);
}

}  // namespace
}  // namespace penstock
