#include "cli/bench/profile_report.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace penstock {
namespace {

// Two steps of a millisecond each on a machine of 10 GB/s, 100 GFLOP/s (400 in bf16).
ProfileReport SampleReport() {
  const OperationCost rotary = {.name = "RopeAndCache", .calls = 4, .seconds = 40e-6, .bytes = 2e5};
  const OperationCost weights = {.name = "MatMul 4x8",
                                 .kind = OperationKind::kProduct,
                                 .calls = 4,
                                 .seconds = 1e-3,
                                 .bytes = 8e6,
                                 .flops = 2e7};
  const OperationCost attention = {.name = "Attention",
                                   .kind = OperationKind::kAttention,
                                   .calls = 2,
                                   .seconds = 800e-6,
                                   .bytes = 1e6,
                                   .flops = 4e7};
  ProfileReport report{.model = "m, f16",
                       .limits = {.threads = 2, .read_bandwidth = 5e9, .fp32 = 1e11, .bf16 = 4e11}};
  report.sections.push_back(
      {.title = "Decode",
       .read_bandwidth = 10e9,
       .profile = {.steps = 2, .seconds = 2e-3, .operations = {rotary, weights, attention}}});
  return report;
}

TEST(ProfileReportTest, RatesAreHeldAgainstTheLimitsMeasuredBesideThem) {
  const std::string text = FormatProfileText(SampleReport());
  EXPECT_TRUE(absl::StrContains(text, "Decode: 1000.0 us a step (2 steps), memory reads 10.0 GB/s"))
      << text;
  EXPECT_TRUE(absl::StrContains(
      text,
      "MatMul 4x8                  2.0     500.0 us   50.0 %     8.0 GB/s   80 %    20.0 "
      "GFLOP/s   20 %  memory\n"))
      << text;
  EXPECT_TRUE(absl::StrContains(text, "50.0 GFLOP/s   50 %  arithmetic\n")) << text;
  EXPECT_TRUE(absl::StrContains(text, "products 50.0 %, attention 40.0 %, everything else"))
      << text;
  EXPECT_TRUE(absl::StrContains(text, "sampling) 2.0 %, outside operations 8.0 %")) << text;
}

TEST(ProfileReportTest, OperationsAreSortedByTimeAndColumnsAligned) {
  const std::string text = FormatProfileText(SampleReport());
  EXPECT_LT(text.find("MatMul 4x8"), text.find("Attention"));
  EXPECT_LT(text.find("Attention"), text.find("RopeAndCache"));
  const auto column = [&](const char* line_with, const char* word) {
    const size_t line = text.rfind('\n', text.find(line_with));
    return text.find(word, line + 1) - line;
  };
  EXPECT_EQ(column("RopeAndCache", "memory"), column("MatMul 4x8", "memory"));
  EXPECT_EQ(column("operation", "bound by"), column("MatMul 4x8", "memory"));
}

TEST(ProfileReportTest, ProductsInBf16HaveTheirOwnPeak) {
  ProfileReport report = SampleReport();
  report.bf16 = true;
  const std::string text = FormatProfileText(report);
  EXPECT_TRUE(absl::StrContains(text, "20.0 GFLOP/s    5 %  memory")) << text;
  EXPECT_TRUE(absl::StrContains(text, "50.0 GFLOP/s   50 %  arithmetic")) << "attention is fp32";
}

TEST(ProfileReportTest, JsonIsPerStep) {
  const auto json = nlohmann::json::parse(FormatProfileJson(SampleReport()));
  EXPECT_EQ(json.at("threads"), 2);
  EXPECT_DOUBLE_EQ(json.at("fp32_flops"), 1e11);
  const auto& step = json.at("steps").at(0);
  EXPECT_DOUBLE_EQ(step.at("seconds"), 1e-3);
  EXPECT_DOUBLE_EQ(step.at("read_bandwidth"), 10e9);
  EXPECT_NEAR(step.at("other"), 0.02, 1e-12);
  EXPECT_NEAR(step.at("outside"), 0.08, 1e-12);
  const auto& product = step.at("operations").at(1);
  EXPECT_EQ(product.at("name"), "MatMul 4x8");
  EXPECT_DOUBLE_EQ(product.at("calls"), 2);
  EXPECT_DOUBLE_EQ(product.at("bytes"), 4e6);
  EXPECT_DOUBLE_EQ(product.at("flops"), 1e7);
  EXPECT_EQ(product.at("bound"), "memory");
}

}  // namespace
}  // namespace penstock
