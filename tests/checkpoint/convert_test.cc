#include "shard/checkpoint/convert.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "shard/base/half.h"
#include "shard/checkpoint/half_conversion.h"

namespace penstock {
namespace {

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

TEST(ConvertTest, EveryHalfBecomesTheFloatThatTheScalarRuleGives) {
  std::vector<uint16_t> halves(0x10000);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  std::vector<float> floats(halves.size());
  HalvesToFloats(halves.data(), std::ssize(halves), floats.data());
  for (size_t i = 0; i < halves.size(); ++i) {
    const float expected = HalfToFloat(halves[i]);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(floats[i])) << i;
    } else {
      EXPECT_EQ(BitsOf(floats[i]), BitsOf(expected)) << i;
    }
  }
}

// Both sides of every rounding boundary, at every length of the rest behind whole registers.
TEST(ConvertTest, FloatsRoundToTheHalvesThatTheScalarRuleGives) {
  std::vector<float> floats;
  for (uint32_t half = 0; half < 0x7c00; half += 7) {
    const float low = HalfToFloat(static_cast<uint16_t>(half));
    const float high = half == 0x7bff ? 65536.0f : HalfToFloat(static_cast<uint16_t>(half + 1));
    const float middle = low + (high - low) / 2;
    for (const float value :
         {low, middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f), -middle})
      floats.push_back(value);
  }
  floats.push_back(std::numeric_limits<float>::infinity());
  floats.push_back(1e30f);
  for (int64_t drop = 0; drop < 9; ++drop) {
    const int64_t count = std::ssize(floats) - drop;
    std::vector<uint16_t> halves(floats.size(), 0xdead);
    FloatsToHalves(floats.data(), count, halves.data());
    for (int64_t i = 0; i < count; ++i)
      ASSERT_EQ(halves[static_cast<size_t>(i)], FloatToHalf(floats[static_cast<size_t>(i)])) << i;
    if (drop > 0) {
      EXPECT_EQ(halves[static_cast<size_t>(count)], 0xdead);
    }
  }
}

// Every start and length inside three blocks, against the whole.
TEST(ConvertTest, AnyWindowOfBlocksIsThatWindowOfTheWhole) {
  const StoredType& type = GgufType(3);  // Q4_1
  ASSERT_EQ(type.name, "Q4_1");
  std::vector<uint8_t> blocks(3 * 20);
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<uint8_t>(i * 37 % 0x3c);
  std::vector<float> whole(96);
  ConvertElements(type, blocks.data(), 0, 96, DType::kF32, whole.data());
  for (int64_t begin = 0; begin < 96; ++begin) {
    for (int64_t count = 0; begin + count <= 96; ++count) {
      std::vector<float> part(static_cast<size_t>(count));
      ConvertElements(type, blocks.data(), begin, count, DType::kF32, part.data());
      for (int64_t i = 0; i < count; ++i)
        ASSERT_EQ(part[static_cast<size_t>(i)], whole[static_cast<size_t>(begin + i)])
            << begin << "+" << count;
    }
  }
}

TEST(ConvertTest, PlainTypesTurnIntoEachOther) {
  const std::vector<float> values = {0.0f, -1.5f, 3.140625f, 65504.0f, 0x1p-20f};
  for (const char* from : {"F32", "F16", "BF16"}) {
    const StoredType& type = SafetensorsType(from);
    std::vector<uint8_t> stored(values.size() * 4);
    const DType as = *ParseDType(from == std::string("F32")   ? "f32"
                                 : from == std::string("F16") ? "f16"
                                                              : "bf16");
    ConvertElements(SafetensorsType("F32"), reinterpret_cast<const uint8_t*>(values.data()), 0,
                    std::ssize(values), as, stored.data());
    std::vector<float> back(values.size());
    ConvertElements(type, stored.data(), 0, std::ssize(values), DType::kF32, back.data());
    for (size_t i = 0; i < values.size(); ++i) {
      const float expected = as == DType::kF32   ? values[i]
                             : as == DType::kF16 ? HalfToFloat(FloatToHalf(values[i]))
                                                 : Bf16ToFloat(FloatToBf16(values[i]));
      EXPECT_EQ(back[i], expected) << from << " " << values[i];
    }
  }
}

}  // namespace
}  // namespace penstock
