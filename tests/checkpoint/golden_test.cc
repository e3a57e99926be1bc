#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "shard/base/half.h"
#include "shard/checkpoint/checkpoint.h"

namespace penstock {
namespace {

constexpr int64_t kRows = 3, kCols = 512;

std::unique_ptr<Checkpoint> OpenGolden() {
  auto opened = Checkpoint::Open(PENSTOCK_TEST_DATA "/checkpoint/quants.gguf");
  EXPECT_TRUE(opened.ok()) << opened.status();
  return opened.ok() ? *std::move(opened) : nullptr;
}

template <typename T>
std::vector<T> ReadAll(const Checkpoint& checkpoint, const std::string& name, DType dtype) {
  std::vector<T> values(kRows * kCols);
  const absl::Status status =
      checkpoint.Read(name, {0, kRows}, {0, kCols}, dtype, values.data(), nullptr);
  EXPECT_TRUE(status.ok()) << status;
  return values;
}

class GoldenTest : public testing::TestWithParam<const char*> {};

TEST_P(GoldenTest, DequantizesToTheReferencesBits) {
  const auto checkpoint = OpenGolden();
  ASSERT_NE(checkpoint, nullptr);
  const std::string type = GetParam();
  EXPECT_EQ(checkpoint->Find(type)->stored_type, type);
  const auto expected = ReadAll<float>(*checkpoint, type + ".expected", DType::kF32);
  const auto got = ReadAll<float>(*checkpoint, type, DType::kF32);
  const auto half = ReadAll<uint16_t>(*checkpoint, type, DType::kF16);
  const auto brain = ReadAll<uint16_t>(*checkpoint, type, DType::kBF16);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(got[i], expected[i]) << "element " << i;
    ASSERT_EQ(half[i], FloatToHalf(expected[i])) << "element " << i;
    ASSERT_EQ(brain[i], FloatToBf16(expected[i])) << "element " << i;
  }
}

TEST_P(GoldenTest, WindowsThatCutBlocksAreThatPartOfTheWhole) {
  const auto checkpoint = OpenGolden();
  ASSERT_NE(checkpoint, nullptr);
  const auto whole = ReadAll<float>(*checkpoint, GetParam(), DType::kF32);
  for (const Range cols : {Range{0, 1}, Range{31, 33}, Range{250, 262}, Range{7, 511}}) {
    std::vector<float> part(static_cast<size_t>(2 * cols.size()), -1.0f);
    const absl::Status status =
        checkpoint->Read(GetParam(), {1, 3}, cols, DType::kF32, part.data(), nullptr);
    ASSERT_TRUE(status.ok()) << status;
    for (int64_t i = 0; i < std::ssize(part); ++i)
      ASSERT_EQ(
          part[static_cast<size_t>(i)],
          whole[static_cast<size_t>((1 + i / cols.size()) * kCols + cols.begin + i % cols.size())])
          << "columns " << cols.begin << " to " << cols.end << ", element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GoldenTest,
                         testing::Values("F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1",
                                         "Q4_K", "Q5_K", "Q6_K"),
                         [](const auto& param) { return std::string(param.param); });

TEST(GoldenMetadataTest, HasEveryValueType) {
  const auto checkpoint = OpenGolden();
  ASSERT_NE(checkpoint, nullptr);
  const nlohmann::json& metadata = checkpoint->metadata();
  EXPECT_EQ(metadata["test.u8"], 200);
  EXPECT_EQ(metadata["test.i8"], -100);
  EXPECT_EQ(metadata["test.u16"], 60000);
  EXPECT_EQ(metadata["test.i16"], -30000);
  EXPECT_EQ(metadata["test.u32"], 4000000000u);
  EXPECT_EQ(metadata["test.i32"], -2000000000);
  EXPECT_EQ(metadata["test.u64"], uint64_t{1} << 63);
  EXPECT_EQ(metadata["test.i64"], -(int64_t{1} << 62));
  EXPECT_EQ(metadata["test.f32"], 0.5);
  EXPECT_EQ(metadata["test.f64"], 0.1);
  EXPECT_EQ(metadata["test.bool"], true);
  EXPECT_EQ(metadata["test.text"], "grüße");
  EXPECT_EQ(metadata["test.texts"], nlohmann::json({"a", "", "bc"}));
  EXPECT_EQ(metadata["test.numbers"], nlohmann::json({1, -2, 3}));
}

}  // namespace
}  // namespace penstock
