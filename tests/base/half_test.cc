#include "shard/base/half.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "shard/base/dtype.h"

namespace penstock {
namespace {

TEST(HalfTest, EveryHalfSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = HalfToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(value))));
    } else {
      EXPECT_EQ(FloatToHalf(value), bits);
    }
  }
}

TEST(HalfTest, RoundsToNearestEven) {
  EXPECT_EQ(FloatToHalf(1.0f + 0x1p-11f), 0x3c00);      // halfway: to even
  EXPECT_EQ(FloatToHalf(1.0f + 3 * 0x1p-11f), 0x3c02);  // halfway: to even
  EXPECT_EQ(FloatToHalf(1.0f + 0x1.1p-11f), 0x3c01);    // above halfway
  EXPECT_EQ(FloatToHalf(65519.996f), 0x7bff);           // largest that does not overflow
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);             // infinity
  EXPECT_EQ(FloatToHalf(0x1p-25f), 0x0000);             // half of the least subnormal: to even
  EXPECT_EQ(FloatToHalf(0x1.8p-25f), 0x0001);
  EXPECT_EQ(FloatToHalf(-0.0f), 0x8000);
  EXPECT_EQ(FloatToHalf(-std::numeric_limits<float>::infinity()), 0xfc00);
}

TEST(Bf16Test, EveryBf16SurvivesTheRoundTripAndRoundsToEven) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = Bf16ToFloat(static_cast<uint16_t>(bits));
    if (!std::isnan(value)) {
      EXPECT_EQ(FloatToBf16(value), bits);
    }
  }
  EXPECT_EQ(FloatToBf16(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(FloatToBf16(1.0f + 3 * 0x1p-8f), 0x3f82);
  EXPECT_TRUE(std::isnan(Bf16ToFloat(FloatToBf16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(DTypeTest, ParsesBothSpellingsAndNamesWhatItRefuses) {
  EXPECT_EQ(*ParseDType("float16"), DType::kF16);
  EXPECT_EQ(*ParseDType("bf16"), DType::kBF16);
  EXPECT_NE(ParseDType("int7").status().message().find("int7"), absl::string_view::npos);
}

}  // namespace
}  // namespace penstock
