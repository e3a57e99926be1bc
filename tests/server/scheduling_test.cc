// What a request says of its scheduling, from the wire to the scheduler and back.

#include <string>

#include "gtest/gtest.h"
#include "tests/server/open_call.h"
#include "tests/server/serving_fixture.h"

namespace penstock {
namespace {

uint32_t CachedTokens(Serving& serving, const v1::GenerateRequest& request) {
  Answer answer = Generate(*serving.NewStub(), request);
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.text(), "bcd");
  return answer.end().usage().cached_prompt_tokens();
}

TEST(SchedulingTest, CachedPromptsAreSharedWithinASaltOnly) {
  Serving serving;
  // With BOS two whole blocks and a bit.
  const v1::GenerateRequest plain = TextRequest(std::string(40, 'a'), 3);
  v1::GenerateRequest tenant = plain, alone = plain;
  tenant.mutable_scheduling()->set_cache_salt("tenant");
  alone.mutable_scheduling()->set_prefix_cache(false);
  EXPECT_EQ(CachedTokens(serving, plain), 0u);
  EXPECT_EQ(CachedTokens(serving, plain), 32u);
  EXPECT_EQ(CachedTokens(serving, tenant), 0u);
  EXPECT_EQ(CachedTokens(serving, tenant), 32u);
  EXPECT_EQ(CachedTokens(serving, alone), 0u);
  EXPECT_EQ(CachedTokens(serving, alone), 0u);
  EXPECT_EQ(CachedTokens(serving, plain), 32u);
}

TEST(SchedulingTest, TheSamplesOfAPrivateCallShareItsPrompt) {
  Serving serving;
  const auto stub = serving.NewStub();
  v1::GenerateRequest request = TextRequest(std::string(40, 'a'), 3);
  request.mutable_scheduling()->set_prefix_cache(false);
  request.set_n(3);
  // A sample that arrives while a step computes the prompt for another computes it once more; that
  // takes a step between two arrivals, which seldom happens.
  EXPECT_TRUE(Eventually([&] {
    Answer answer = Generate(*stub, request);
    EXPECT_TRUE(answer.status.ok());
    uint32_t cached = 0;
    for (uint32_t i = 0; i < 3; ++i) {
      EXPECT_EQ(answer.texts[i], "bcd");
      cached += answer.last[i].usage().cached_prompt_tokens();
    }
    return cached == 2u * 32u;  // one of them has computed it
  }));
}

TEST(SchedulingTest, TheMoreUrgentGoesFirst) {
  Serving::Options options;
  options.executor.max_sequences = 1;
  Serving serving(options);
  serving.executor.Hold();
  const auto stub = serving.NewStub();
  OpenCall running(*stub, TextRequest("a", 3));
  ASSERT_TRUE(Eventually([&] { return serving.scheduler->state().running == 1; }));
  v1::GenerateRequest later = TextRequest("a", 120), urgent = TextRequest("a", 3);
  later.mutable_scheduling()->set_priority(5);
  urgent.mutable_scheduling()->set_priority(-5);
  OpenCall first_come(*stub, later);
  ASSERT_TRUE(Eventually([&] { return serving.scheduler->state().waiting == 1; }));
  OpenCall last_come(*stub, urgent);
  ASSERT_TRUE(Eventually([&] { return serving.scheduler->state().waiting == 2; }));
  serving.executor.set_step_delay(absl::Milliseconds(10));
  serving.executor.Release();
  EXPECT_EQ(last_come.ReadText(), "bcd");
  EXPECT_TRUE(last_come.Finish().ok());
  EXPECT_TRUE(serving.scheduler->state().has_work());  // the other has more than a second to go
  EXPECT_EQ(first_come.ReadText().size(), 120u);
  EXPECT_EQ(running.ReadText(), "bcd");
}

}  // namespace
}  // namespace penstock
