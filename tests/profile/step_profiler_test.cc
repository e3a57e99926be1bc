#include "shard/profile/step_profiler.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace penstock {
namespace {

std::unique_ptr<StepProfiler> LoadProfiler(const std::string& model) {
  const auto checkpoint = Checkpoint::Open(absl::StrCat(PENSTOCK_TEST_DATA, "/", model));
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  StepProfilerOptions options;
  options.cpu.threads = 1;
  options.max_sequences = 2;
  options.max_context = 40;
  options.max_step_tokens = 40;
  auto profiler = StepProfiler::Load(**checkpoint, options);
  EXPECT_TRUE(profiler.ok()) << profiler.status();
  return *std::move(profiler);
}

std::map<std::string, int64_t> CallsOf(const StepProfile& profile) {
  std::map<std::string, int64_t> calls;
  for (const OperationCost& each : profile.operations) calls[each.name] = each.calls;
  return calls;
}

TEST(StepProfilerTest, DecodesWithEveryOperationOfTheModel) {
  const auto profiler = LoadProfiler("models/llama-uneven");  // five layers
  const auto profile = profiler->Decode(2, 20, 3);
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->steps, 3);
  std::map<std::string, int64_t> calls = CallsOf(*profile);
  for (const char* name : {"MatMul 72x120", "MatMul 72x72", "MatMulSiluMul 72x192", "MatMul 96x72",
                           "Attention", "RopeAndCache"})
    EXPECT_EQ(calls[name], 5 * 3) << name;
  for (const char* name : {"MatMul 72x200", "Embed", "Sample"}) EXPECT_EQ(calls[name], 3) << name;
  for (const OperationCost& each : profile->operations) {
    if (each.name == "Attention") {
      EXPECT_EQ(each.flops, 5 * 3 * 4 * (2 * 20) * 72);
    }
    if (each.name == "MatMul 72x200") {
      EXPECT_EQ(each.flops, 3 * 2 * 2 * 72 * 200);
    }
  }
}

TEST(StepProfilerTest, SharesAddUpToTheStep) {
  const auto profiler = LoadProfiler("models/llama-uneven");
  const auto profile = profiler->Prefill(30, 2);
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_GE(profile->OutsideSeconds(), 0);
  EXPECT_NEAR(profile->Seconds(OperationKind::kProduct) +
                  profile->Seconds(OperationKind::kAttention) +
                  profile->Seconds(OperationKind::kOther) + profile->OutsideSeconds(),
              profile->seconds, 1e-9);
  for (const OperationCost& each : profile->operations)
    if (each.name == "Attention") {
      EXPECT_EQ(each.flops, 5 * 2 * 4 * (30 * 31 / 2) * 72);
    }
}

TEST(StepProfilerTest, EncodersHaveTextsOnly) {
  const auto profiler = LoadProfiler("encoders/bert-mean");
  EXPECT_EQ(profiler->Decode(1, 5, 1).status().code(), absl::StatusCode::kInvalidArgument);
  const auto profile = profiler->Prefill(7, 2);
  ASSERT_TRUE(profile.ok()) << profile.status();
  std::map<std::string, int64_t> calls = CallsOf(*profile);
  EXPECT_EQ(calls["Attention"], 2 * profiler->spec().layers);
  EXPECT_EQ(calls["MeanRows"], 2);
}

TEST(StepProfilerTest, StepsBeyondWhatWasPlannedAreRefused) {
  const auto profiler = LoadProfiler("models/llama-uneven");
  EXPECT_FALSE(profiler->Prefill(41, 1).ok());
  EXPECT_FALSE(profiler->Decode(3, 20, 1).ok());
}

}  // namespace
}  // namespace penstock
