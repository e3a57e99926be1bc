// A failed step fails the executor, not the requests.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "scheduler/restart_backoff.h"
#include "tests/scheduler/harness.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::unique_ptr<Client>> SubmitMany(Harness& harness, int32_t count) {
  std::vector<std::unique_ptr<Client>> clients;
  for (int32_t i = 0; i < count; ++i) {
    GenerateRequest request = MakeRequest(i, 3 + i * 7 % 40, 10 + i % 9);
    if (i % 3 == 0) request.sampling.repetition_penalty = 1.25f;
    clients.push_back(std::make_unique<Client>(request));
    EXPECT_TRUE(harness.Submit(*clients.back()).ok());
  }
  return clients;
}

// Steps until nothing is left, through the pauses between restarts.
void StepToEnd(Harness& harness) {
  const absl::Time limit = absl::Now() + absl::Seconds(60);
  while (harness.scheduler.state().has_work() && absl::Now() < limit) {
    if (!harness.scheduler.Step()) absl::SleepFor(absl::Milliseconds(1));
  }
}

void ExpectClean(const Harness& harness) {
  EXPECT_THAT(harness.executor.violations(), IsEmpty());
  EXPECT_EQ(harness.scheduler.state().kv_blocks_used, 0);
  EXPECT_FALSE(harness.scheduler.state().has_work());
}

TEST(SchedulerRecoveryTest, StreamsGoOnWithTheirTokens) {
  Harness harness;
  int steps = 0;
  harness.executor.set_fault([&](const StepBatch&) {
    return ++steps % 9 == 0 ? absl::DeadlineExceededError("step 8, rank 1: receive timed out")
                            : absl::OkStatus();
  });
  auto clients = SubmitMany(harness, 12);
  StepToEnd(harness);
  EXPECT_GE(harness.executor.restarts(), 3);
  EXPECT_TRUE(harness.observer.was_unhealthy);
  EXPECT_TRUE(harness.scheduler.state().healthy);
  for (auto& client : clients) {
    ASSERT_TRUE(client->Poll());
    EXPECT_TRUE(client->end().status.ok()) << client->end().status;
    EXPECT_EQ(client->tokens(), client->Expected(1000));
  }
  ExpectClean(harness);
}

TEST(SchedulerRecoveryTest, AResultOfAnotherStepIsAFailure) {
  Harness harness;
  Client client(MakeRequest(1, 5, 20));
  ASSERT_TRUE(harness.Submit(client).ok());
  harness.scheduler.Step();
  harness.executor.Abort(absl::InternalError("a rank died between two steps"));
  StepToEnd(harness);
  ASSERT_TRUE(client.Poll());
  EXPECT_EQ(client.tokens(), client.Expected(1000));
  EXPECT_EQ(harness.executor.restarts(), 1);
}

TEST(SchedulerRecoveryTest, ALossWithNothingToDoIsRepairedBeforeTheNextRequest) {
  Harness harness;
  harness.scheduler.Step();
  harness.executor.set_failing_restarts(1);
  harness.executor.Abort(absl::UnavailableError("a rank died while idle"));
  harness.scheduler.Step();
  EXPECT_FALSE(harness.scheduler.state().healthy);
  StepToEnd(harness);
  const absl::Time end = absl::Now() + absl::Seconds(20);
  while (!harness.scheduler.state().healthy && absl::Now() < end) harness.scheduler.Step();
  EXPECT_EQ(harness.executor.restarts(), 2);
  EXPECT_EQ(harness.observer.recoveries, 1);
  EXPECT_EQ(harness.observer.recomputed, 0);
}

TEST(SchedulerRecoveryTest, TheSchedulersThreadNoticesALossWhileIdle) {
  Harness harness;
  harness.scheduler.Start();
  harness.executor.Abort(absl::UnavailableError("a rank died while idle"));
  const absl::Time end = absl::Now() + absl::Seconds(20);
  while (harness.executor.restarts() == 0 && absl::Now() < end)
    absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(harness.executor.restarts(), 1);
}

TEST(SchedulerRecoveryTest, WhatIsComputedAgainIsCounted) {
  Harness harness;
  Client client(MakeRequest(1, 5, 20));
  ASSERT_TRUE(harness.Submit(client).ok());
  for (int i = 0; i < 4; ++i) harness.scheduler.Step();
  const auto drawn = static_cast<int64_t>(harness.observer.tokens) + 1;
  harness.executor.Abort(absl::UnavailableError("a rank died"));
  StepToEnd(harness);
  EXPECT_EQ(harness.observer.recoveries, 1);
  EXPECT_GE(harness.observer.recomputed, 5 + drawn - 1);
  EXPECT_LE(harness.observer.recomputed, 5 + drawn + harness.executor.info().max_in_flight);
}

TEST(SchedulerRecoveryTest, RestartIsTriedAgain) {
  Harness harness;
  bool failed = false;
  harness.executor.set_fault([&](const StepBatch& batch) {
    if (failed || batch.step < 3) return absl::OkStatus();
    failed = true;
    return absl::UnavailableError("worker gone");
  });
  harness.executor.set_failing_restarts(3);
  auto clients = SubmitMany(harness, 4);
  StepToEnd(harness);
  EXPECT_EQ(harness.executor.restarts(), 4);
  for (auto& client : clients) {
    ASSERT_TRUE(client->Poll());
    EXPECT_EQ(client->tokens(), client->Expected(1000));
  }
  ExpectClean(harness);
}

TEST(SchedulerRecoveryTest, PastTheBoundStreamsEndUnavailable) {
  Harness harness(SmallExecutorInfo(), {.recovery_timeout = absl::Milliseconds(200)});
  harness.executor.set_fault(
      [](const StepBatch&) { return absl::UnavailableError("rank 3 gone"); });
  harness.executor.set_failing_restarts(1000000);
  auto clients = SubmitMany(harness, 12);
  StepToEnd(harness);
  for (auto& client : clients) {
    ASSERT_TRUE(client->Poll());
    EXPECT_EQ(client->end().status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(client->end().status.message()), HasSubstr("rank 3 gone"));
  }
  EXPECT_FALSE(harness.scheduler.state().healthy);
  EXPECT_FALSE(harness.scheduler.Step());
  Client late(MakeRequest(1, 4, 4));
  EXPECT_EQ(harness.Submit(late).code(), absl::StatusCode::kUnavailable);
  ExpectClean(harness);
}

TEST(SchedulerRecoveryTest, WhatComesBackAfterTheBoundServesAgain) {
  Harness harness(SmallExecutorInfo(), {.recovery_timeout = absl::Milliseconds(1)});
  harness.executor.set_failing_restarts(3);
  harness.executor.Abort(absl::UnavailableError("rank 3 gone"));
  Client early(MakeRequest(1, 4, 4));
  ASSERT_TRUE(harness.Submit(early).ok());
  const absl::Time end = absl::Now() + absl::Seconds(30);
  while (harness.executor.restarts() < 2 && absl::Now() < end) harness.scheduler.Step();
  ASSERT_TRUE(early.Poll());
  EXPECT_EQ(early.end().status.code(), absl::StatusCode::kUnavailable);
  while (!harness.scheduler.state().healthy && absl::Now() < end) harness.scheduler.Step();
  Client late(MakeRequest(1, 4, 4));
  ASSERT_TRUE(harness.Submit(late).ok());
  StepToEnd(harness);
  ASSERT_TRUE(late.Poll());
  EXPECT_EQ(late.tokens(), late.Expected(1000));
}

TEST(SchedulerRecoveryTest, CancellationIsSeenWhileRestarting) {
  Harness harness;
  harness.executor.set_fault([](const StepBatch&) { return absl::UnavailableError("gone"); });
  harness.executor.set_failing_restarts(1000000);
  Client client(MakeRequest(1, 4, 4));
  ASSERT_TRUE(harness.Submit(client).ok());
  harness.scheduler.Step();
  harness.scheduler.Step();
  client.stream()->Cancel();
  harness.scheduler.Step();
  ASSERT_TRUE(client.Poll());
  EXPECT_EQ(client.end().status.code(), absl::StatusCode::kCancelled);
}

TEST(SchedulerRecoveryTest, EveryStageIsFilledAgainAfterwards) {
  ExecutorInfo info = SmallExecutorInfo();
  info.stages = 3;
  info.max_in_flight = 4;
  Harness harness(info);
  std::vector<std::unique_ptr<Client>> clients;
  for (int32_t i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<Client>(MakeRequest(i, 4, 100)));
    ASSERT_TRUE(harness.Submit(*clients.back()).ok());
  }
  for (int turn = 0; turn < 20; ++turn) harness.scheduler.Step();
  harness.executor.Abort(absl::InternalError("a rank died"));
  for (int turn = 0; turn < 20; ++turn) harness.scheduler.Step();
  for (int turn = 0; turn < 6; ++turn) {
    harness.scheduler.Step();
    EXPECT_EQ(harness.scheduler.state().in_flight, 2) << "three, of which one was just committed";
  }
}

// Fails every step that feeds `poison`.
FakeExecutor::Fault PoisonedBy(int32_t poison) {
  return [poison](const StepBatch& batch) {
    const auto& tokens = batch.tokens;
    return std::find(tokens.begin(), tokens.end(), poison) == tokens.end()
               ? absl::OkStatus()
               : absl::InternalError("kernel fault");
  };
}

TEST(SchedulerRecoveryTest, APoisonousRequestEndsAloneAndSoon) {
  for (size_t place : {size_t{0}, size_t{3}, size_t{30}}) {
    Harness harness;
    auto clients = SubmitMany(harness, 4);
    GenerateRequest request = MakeRequest(77, 40, 10);
    request.prompt[place] = 999;
    Client poisonous(request);
    ASSERT_TRUE(harness.Submit(poisonous).ok());
    auto later = SubmitMany(harness, 4);
    for (auto& client : later) clients.push_back(std::move(client));
    for (auto& client : clients) {
      std::vector<int32_t> fed = client->Expected(1000);
      fed.insert(fed.end(), client->request().prompt.begin(), client->request().prompt.end());
      ASSERT_EQ(std::count(fed.begin(), fed.end(), 999), 0) << "the others must be harmless";
    }
    harness.executor.set_fault(PoisonedBy(999));
    StepToEnd(harness);
    ASSERT_TRUE(poisonous.Poll());
    EXPECT_EQ(poisonous.end().status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(poisonous.end().status.message()), HasSubstr("kernel fault"));
    EXPECT_EQ(harness.executor.restarts(), SequenceRunner::kMaxFailures);
    for (auto& client : clients) {
      ASSERT_TRUE(client->Poll());
      EXPECT_TRUE(client->end().status.ok()) << client->end().status;
      EXPECT_EQ(client->tokens(), client->Expected(1000));
    }
    ExpectClean(harness);
  }
}

TEST(RestartBackoffTest, PausesDoubleAndEndAtTheBound) {
  const absl::Time start = absl::UnixEpoch();
  RestartBackoff backoff(absl::InternalError("x"), start, absl::Seconds(60));
  EXPECT_EQ(backoff.next_attempt(), start);
  absl::Time now = start;
  std::vector<absl::Duration> pauses;
  while (backoff.OnFailedAttempt(now)) {
    pauses.push_back(backoff.next_attempt() - now);
    now = backoff.next_attempt();
  }
  EXPECT_EQ(now, start + absl::Seconds(60)) << "the last attempt is made at the bound";
  EXPECT_EQ(pauses[0], absl::Milliseconds(50));
  EXPECT_EQ(pauses[1], absl::Milliseconds(100));
  EXPECT_EQ(*std::max_element(pauses.begin(), pauses.end()), absl::Seconds(5));
}

TEST(SchedulerRecoveryTest, LogitsThatAreNotFiniteEndTheirSequenceAlone) {
  Harness harness;
  auto clients = SubmitMany(harness, 6);
  const GenerateRequest& spoiled = clients[2]->request();
  harness.executor.set_not_finite(spoiled.sampling.seed,
                                  static_cast<int32_t>(spoiled.prompt.size()) + 4);
  StepToEnd(harness);
  EXPECT_EQ(harness.executor.restarts(), 0);
  for (auto& client : clients) {
    ASSERT_TRUE(client->Poll());
    if (client == clients[2]) {
      EXPECT_EQ(client->end().status.code(), absl::StatusCode::kInternal);
      EXPECT_THAT(std::string(client->end().status.message()), HasSubstr("not finite"));
      EXPECT_EQ(client->tokens().size(), 4u);
    } else {
      EXPECT_EQ(client->tokens(), client->Expected(1000));
    }
  }
  ExpectClean(harness);
}

}  // namespace
}  // namespace penstock
