#include "shard/model/rope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "shard/backend/cpu/cpu_backend.h"

namespace penstock {
namespace {

using testing::DoubleNear;
using testing::Pointwise;

std::vector<double> Frequencies(const RopeSpec& rope, int32_t max_context = 128) {
  return ComputeRopeFrequencies(rope, 8, max_context).inverse_frequencies;
}

// theta^(-2i / 8) with theta = 10^4.
const std::vector<double> kPlain = {1, 0.1, 0.01, 0.001};

void ExpectNear(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_THAT(a, Pointwise(DoubleNear(1e-9), b));
}

TEST(Rope, Plain) { ExpectNear(Frequencies({}), kPlain); }

TEST(Rope, Linear) {
  ExpectNear(Frequencies({.scaling = RopeScaling::kLinear, .factor = 4}),
             {0.25, 0.025, 0.0025, 0.00025});
}

TEST(Rope, Factors) {
  RopeSpec rope;
  rope.scaling = RopeScaling::kFactors;
  rope.factors = {1, 2, 4, 8};
  ExpectNear(Frequencies(rope), {1, 0.05, 0.0025, 0.000125});
}

TEST(Rope, Llama3KeepsShortWavesAndStretchesLongOnes) {
  RopeSpec rope{.scaling = RopeScaling::kLlama3, .factor = 8, .original_context = 128};
  // Turns in 128 positions: 20.4, 2.04, 0.204, 0.0204; kept above 4, stretched below 1.
  const double turns = 128 * 0.1 / (2 * M_PI), keep = (turns - 1) / 3;
  ExpectNear(Frequencies(rope), {1, (1 - keep) * 0.1 / 8 + keep * 0.1, 0.01 / 8, 0.001 / 8});
}

TEST(Rope, YarnAttentionFactor) {
  RopeSpec rope{.scaling = RopeScaling::kYarn, .factor = 4, .original_context = 64};
  const auto factor = [&] { return ComputeRopeFrequencies(rope, 8, 256).attention_factor; };
  EXPECT_NEAR(factor(), 0.1 * std::log(4.0) + 1, 1e-12);
  rope.mscale = 1;  // alone it says nothing
  EXPECT_NEAR(factor(), 0.1 * std::log(4.0) + 1, 1e-12);
  rope.mscale_all_dim = 0.5f;
  EXPECT_NEAR(factor(), (0.1 * std::log(4.0) + 1) / (0.05 * std::log(4.0) + 1), 1e-12);
  rope.attention_factor = 1.5f;
  EXPECT_NEAR(factor(), 1.5, 1e-12);
}

TEST(Rope, DynamicBaseIsThatOfTheConfiguredContext) {
  const RopeSpec rope{.scaling = RopeScaling::kDynamic, .factor = 2, .original_context = 128};
  ExpectNear(Frequencies(rope, 64), kPlain);
  ExpectNear(Frequencies(rope, 128), kPlain);
  const double theta = 1e4 * std::pow(2 * 4.0 - 1, 8.0 / 6.0);
  const std::vector<double> longer = Frequencies(rope, 512);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(longer[i], std::pow(theta, -0.25 * static_cast<double>(i)), 1e-12);
}

TEST(Rope, TablesHoldScaledCosAndSin) {
  const RopeSpec rope{
      .scaling = RopeScaling::kYarn, .factor = 1, .original_context = 64, .attention_factor = 2};
  auto backend = *MakeCpuBackend({.threads = 1});
  const auto tables = RopeTables::Make(rope, 8, 100, *backend);
  ASSERT_TRUE(tables.ok()) << tables.status();
  const RopeTable table = tables->table();
  EXPECT_EQ(table.cos.rows, 100);
  EXPECT_EQ(table.cos.cols, 4);
  EXPECT_EQ(RopeTables::Bytes(8, 100), 2 * 100 * 4 * 4);
  EXPECT_FLOAT_EQ(*static_cast<float*>(table.cos.At(70, 1)), static_cast<float>(2 * std::cos(7.0)));
  EXPECT_FLOAT_EQ(*static_cast<float*>(table.sin.At(70, 1)), static_cast<float>(2 * std::sin(7.0)));
}

}  // namespace
}  // namespace penstock
