#include "scheduler/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/scheduler/harness.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;

TEST(AdmissionTest, AcceptsWhatFitsExactly) {
  const ExecutorInfo info = SmallExecutorInfo();
  EXPECT_TRUE(CheckRequest(MakeRequest(1, info.max_context - 8, 8), info).ok());
  GenerateRequest resumed = MakeRequest(1, 8, 4);
  resumed.generated = {1, 2, 3, 4};
  EXPECT_TRUE(CheckRequest(resumed, info).ok());
}

struct BadRequest {
  std::string name;
  std::function<void(GenerateRequest&)> spoil;
  std::string message;
};

class BadRequestTest : public ::testing::TestWithParam<BadRequest> {};

TEST_P(BadRequestTest, IsRefusedWithItsFieldAndNumbers) {
  Harness harness;
  Client good(MakeRequest(1, 5, 4));
  ASSERT_TRUE(harness.Submit(good).ok());
  GenerateRequest request = MakeRequest(2, 8, 8);
  GetParam().spoil(request);
  Client bad(request);
  const absl::Status status = harness.Submit(bad);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
  harness.StepAll();
  EXPECT_FALSE(bad.Poll()) << "a refused stream is not closed by the scheduler";
  EXPECT_TRUE(good.Poll());
  EXPECT_EQ(good.tokens(), good.Expected(1000));
}

INSTANTIATE_TEST_SUITE_P(
    Requests, BadRequestTest,
    ::testing::Values(
        BadRequest{"EmptyPrompt", [](GenerateRequest& r) { r.prompt.clear(); }, "prompt"},
        BadRequest{"NegativeId", [](GenerateRequest& r) { r.prompt[3] = -1; },
                   "prompt: token id -1"},
        BadRequest{"IdAtVocab", [](GenerateRequest& r) { r.prompt[0] = 1000; }, "[0, 1000)"},
        BadRequest{"StopIdAboveVocab", [](GenerateRequest& r) { r.stop_tokens = {1001}; },
                   "stop_tokens: token id 1001"},
        BadRequest{"NegativeStopIdWithMin",
                   [](GenerateRequest& r) {
                     r.stop_tokens = {-5};
                     r.min_tokens = 1;
                   },
                   "stop_tokens: token id -5"},
        BadRequest{"MaskedId", [](GenerateRequest& r) { r.sampling.masked_until_min = {1 << 30}; },
                   "masked_until_min"},
        BadRequest{"BiasId",
                   [](GenerateRequest& r) {
                     r.sampling.logit_bias = {{1000, 1.0f}};
                   },
                   "logit_bias: token id 1000"},
        BadRequest{"GeneratedId", [](GenerateRequest& r) { r.generated = {1000}; },
                   "generated: token id 1000"},
        BadRequest{"TooMuchGenerated", [](GenerateRequest& r) { r.generated.assign(9, 1); },
                   "generated: 9 tokens"},
        BadRequest{"NoTokens", [](GenerateRequest& r) { r.max_tokens = 0; }, "max_tokens: 0"},
        BadRequest{"NegativeTokens", [](GenerateRequest& r) { r.max_tokens = -3; },
                   "max_tokens: -3"},
        BadRequest{"HugeTokens", [](GenerateRequest& r) { r.max_tokens = INT32_MAX; },
                   "exceeds the limit of 128 tokens"},
        BadRequest{"MinAboveMax", [](GenerateRequest& r) { r.min_tokens = 9; }, "min_tokens: 9"},
        BadRequest{"NegativeMin", [](GenerateRequest& r) { r.min_tokens = -1; }, "min_tokens: -1"},
        BadRequest{"OneBeyondContext", [](GenerateRequest& r) { r.prompt.assign(121, 7); },
                   "prompt of 121 tokens + max_tokens 8 = 129"}),
    [](const auto& test) { return test.param.name; });

TEST(AdmissionTest, TheWholeKvCacheIsALimitToo) {
  ExecutorInfo info = SmallExecutorInfo();
  info.kv_blocks = 5;  // 20 tokens
  EXPECT_TRUE(CheckRequest(MakeRequest(1, 12, 8), info).ok());
  const absl::Status status = CheckRequest(MakeRequest(1, 13, 8), info);
  EXPECT_THAT(std::string(status.message()), HasSubstr("KV cache 20"));
}

}  // namespace
}  // namespace penstock
