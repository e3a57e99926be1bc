#include "scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scheduler/harness.h"

namespace penstock {
namespace {

using ::testing::IsEmpty;

void ExpectClean(const Harness& harness) {
  EXPECT_THAT(harness.executor.violations(), IsEmpty());
  const SchedulerState state = harness.scheduler.state();
  EXPECT_EQ(state.kv_blocks_used, 0);
  EXPECT_FALSE(state.has_work());
}

void ExpectComplete(Client& client, FinishReason reason) {
  ASSERT_TRUE(client.Poll());
  EXPECT_TRUE(client.end().status.ok()) << client.end().status;
  EXPECT_EQ(client.end().reason, reason);
  EXPECT_EQ(client.tokens(), client.Expected(1000));
}

TEST(SchedulerTest, OneSequenceRunsToItsLength) {
  Harness harness;
  Client client(MakeRequest(1, 50, 20));
  ASSERT_TRUE(harness.Submit(client).ok());
  EXPECT_EQ(harness.scheduler.state().waiting, 1);
  harness.StepAll();
  ExpectComplete(client, FinishReason::kLength);
  EXPECT_EQ(client.tokens().size(), 20u);
  const SequenceTimes& times = client.end().times;
  EXPECT_LE(times.arrival, times.first_scheduled);
  EXPECT_LE(times.first_scheduled, times.first_token);
  EXPECT_LE(times.first_token, times.last_token);
  EXPECT_NE(times.arrival, absl::InfinitePast());
  EXPECT_EQ(harness.observer.tokens, 19) << "gaps, not tokens";
  const auto finishes = harness.observer.finishes();
  ASSERT_EQ(finishes.size(), 1u);
  EXPECT_EQ(finishes[0].prompt_tokens, 50);
  EXPECT_EQ(finishes[0].output_tokens, 20);
  ExpectClean(harness);
}

TEST(SchedulerTest, StepReportsCountEveryTokenOnce) {
  Harness harness;
  Client a(MakeRequest(1, 50, 20)), b(MakeRequest(2, 7, 3));
  ASSERT_TRUE(harness.Submit(a).ok());
  ASSERT_TRUE(harness.Submit(b).ok());
  harness.StepAll();
  int32_t prefill = 0, decode = 0;
  for (const StepReport& step : harness.observer.steps()) {
    prefill += step.prefill_tokens;
    decode += step.decode_tokens;
    EXPECT_GE(step.sequences, 1);
  }
  EXPECT_EQ(prefill, 57);
  EXPECT_EQ(decode, 19 + 2);
}

TEST(SchedulerTest, ManySequencesGetWhatTheyGetAlone) {
  Harness harness;
  std::vector<std::unique_ptr<Client>> clients;
  for (int32_t i = 0; i < 40; ++i) {
    clients.push_back(std::make_unique<Client>(MakeRequest(i, 1 + i * 5 % 60, 1 + i * 7 % 30)));
    ASSERT_TRUE(harness.Submit(*clients.back()).ok());
  }
  harness.StepAll();
  for (auto& client : clients) ExpectComplete(*client, FinishReason::kLength);
  ExpectClean(harness);
}

TEST(SchedulerTest, AStopTokenEndsTheStreamAndIsItsLast) {
  Client reference(MakeRequest(3, 6, 12));
  const std::vector<int32_t> full = reference.Expected(1000);
  Harness harness;
  GenerateRequest request = MakeRequest(3, 6, 12);
  request.stop_tokens = {full[4]};
  Client stopped(request);
  request.max_tokens = 5;
  Client stopped_by_the_last(request);
  ASSERT_TRUE(harness.Submit(stopped).ok());
  ASSERT_TRUE(harness.Submit(stopped_by_the_last).ok());
  harness.StepAll();
  ExpectComplete(stopped, FinishReason::kStop);
  EXPECT_EQ(stopped.tokens().size(), 5u);
  ExpectComplete(stopped_by_the_last, FinishReason::kStop);
  ExpectClean(harness);
}

TEST(SchedulerTest, NoStopTokenBeforeMinTokens) {
  const std::vector<int32_t> full = Client(MakeRequest(3, 6, 12)).Expected(1000);
  Harness harness;
  GenerateRequest request = MakeRequest(3, 6, 12);
  request.stop_tokens = {full[1]};
  request.min_tokens = 8;
  Client client(request);
  ASSERT_TRUE(harness.Submit(client).ok());
  harness.StepAll();
  ASSERT_TRUE(client.Poll());
  EXPECT_GE(client.tokens().size(), 8u);
  EXPECT_EQ(client.tokens(), client.Expected(1000));
}

TEST(SchedulerTest, AResumedStreamGoesOnAsIfItHadNeverStopped) {
  GenerateRequest request = MakeRequest(9, 20, 16);
  request.sampling.frequency_penalty = 0.5f;
  const std::vector<int32_t> full = Client(request).Expected(1000);
  for (size_t held : {size_t{1}, size_t{7}, size_t{15}}) {
    Harness harness;
    GenerateRequest resumed = request;
    resumed.generated.assign(full.begin(), full.begin() + static_cast<int64_t>(held));
    Client client(resumed);
    ASSERT_TRUE(harness.Submit(client).ok());
    harness.StepAll();
    ASSERT_TRUE(client.Poll());
    EXPECT_EQ(client.tokens(),
              std::vector<int32_t>(full.begin() + static_cast<int64_t>(held), full.end()));
    EXPECT_EQ(harness.observer.finishes().at(0).output_tokens, static_cast<int32_t>(16 - held));
    ExpectClean(harness);
  }
}

TEST(SchedulerTest, ResumingWhatIsCompleteEndsAtOnce) {
  Harness harness;
  GenerateRequest request = MakeRequest(9, 20, 3);
  request.generated = {5, 6, 7};
  Client length(request);
  request.stop_tokens = {7};
  Client stop(request);
  ASSERT_TRUE(harness.Submit(length).ok());
  ASSERT_TRUE(harness.Submit(stop).ok());
  EXPECT_FALSE(harness.scheduler.Step());
  ASSERT_TRUE(length.Poll());
  EXPECT_EQ(length.end().reason, FinishReason::kLength);
  ASSERT_TRUE(stop.Poll());
  EXPECT_EQ(stop.end().reason, FinishReason::kStop);
  EXPECT_THAT(stop.tokens(), IsEmpty());
  EXPECT_EQ(harness.executor.steps_run(), 0);
  ExpectClean(harness);
}

TEST(SchedulerTest, PreemptionChangesNoToken) {
  ExecutorInfo info = SmallExecutorInfo();
  info.kv_blocks = 16;  // 64 tokens for 8 sequences of up to 50
  Harness harness(info);
  std::vector<std::unique_ptr<Client>> clients;
  for (int32_t i = 0; i < 12; ++i) {
    GenerateRequest request = MakeRequest(i, 4 + i, 40 - i);
    if (i % 2 == 0) request.sampling.presence_penalty = 0.25f;
    clients.push_back(std::make_unique<Client>(request));
    ASSERT_TRUE(harness.Submit(*clients.back()).ok());
  }
  harness.StepAll();
  int32_t preemptions = 0;
  for (auto& client : clients) {
    ExpectComplete(*client, FinishReason::kLength);
    preemptions += client->end().times.preemptions;
  }
  EXPECT_GT(preemptions, 0);
  EXPECT_EQ(harness.observer.preemptions, preemptions);
  ExpectClean(harness);
}

TEST(SchedulerTest, SamplesOfOnePromptDiffer) {
  Harness harness;
  GenerateRequest request = MakeRequest(4, 10, 10);
  Client first(request);
  request.sample_index = 1;
  Client second(request);
  ASSERT_TRUE(harness.Submit(first).ok());
  ASSERT_TRUE(harness.Submit(second).ok());
  harness.StepAll();
  ExpectComplete(first, FinishReason::kLength);
  ExpectComplete(second, FinishReason::kLength);
  EXPECT_NE(first.tokens(), second.tokens());
}

TEST(SchedulerTest, TheQueueHasALimit) {
  Harness harness(SmallExecutorInfo(), {.max_queued = 2, .max_sequences = 1});
  std::vector<std::unique_ptr<Client>> clients;
  for (int32_t i = 0; i < 4; ++i)
    clients.push_back(std::make_unique<Client>(MakeRequest(i, 5, 10)));
  for (size_t i = 0; i < 3; ++i) ASSERT_TRUE(harness.Submit(*clients[i]).ok()) << i;
  EXPECT_EQ(harness.Submit(*clients[3]).code(), absl::StatusCode::kResourceExhausted);
  harness.scheduler.Step();
  EXPECT_EQ(harness.scheduler.state().running, 1);
  EXPECT_EQ(harness.scheduler.state().waiting, 2);
  EXPECT_EQ(harness.Submit(*clients[3]).code(), absl::StatusCode::kResourceExhausted);
  while (harness.scheduler.state().waiting == 2) harness.scheduler.Step();
  EXPECT_TRUE(harness.Submit(*clients[3]).ok());
  harness.StepAll();
  for (auto& client : clients) ExpectComplete(*client, FinishReason::kLength);
  ExpectClean(harness);
}

TEST(SchedulerTest, ProgressIsFreshWhenWorkArrivesAfterIdling) {
  Harness harness;
  Client client(MakeRequest(1, 4, 4));
  const absl::Time before = absl::Now();
  EXPECT_EQ(harness.scheduler.state().last_progress, absl::InfinitePast());
  ASSERT_TRUE(harness.Submit(client).ok());
  EXPECT_GE(harness.scheduler.state().last_progress, before);
  EXPECT_TRUE(harness.scheduler.state().has_work());
}

}  // namespace
}  // namespace penstock
