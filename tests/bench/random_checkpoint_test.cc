#include "bench/support/random_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "shard/base/half.h"
#include "shard/model/model_spec.h"

namespace penstock {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr const char* kMatrix = "model.layers.3.self_attn.k_proj.weight";  // [192, 576]

std::unique_ptr<Checkpoint> Small(uint64_t seed) {
  auto checkpoint = RandomCheckpoint::Create("135m", seed);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  return *std::move(checkpoint);
}

std::vector<float> Floats(const Checkpoint& checkpoint, const char* name, Range rows, Range cols) {
  std::vector<float> out(static_cast<size_t>(rows.size() * cols.size()));
  const absl::Status status = checkpoint.Read(name, rows, cols, DType::kF32, out.data(), nullptr);
  EXPECT_TRUE(status.ok()) << status;
  return out;
}

TEST(RandomCheckpoint, AWindowHasTheValuesOfTheWhole) {
  const auto checkpoint = Small(1);
  const std::vector<float> whole = Floats(*checkpoint, kMatrix, {0, 192}, {0, 576});
  const std::vector<float> window = Floats(*checkpoint, kMatrix, {5, 9}, {17, 300});
  for (int64_t row = 0; row < 4; ++row)
    for (int64_t col = 0; col < 283; ++col)
      ASSERT_EQ(window[static_cast<size_t>(row * 283 + col)],
                whole[static_cast<size_t>((row + 5) * 576 + col + 17)]);
}

TEST(RandomCheckpoint, ValuesAreAboutNormalAndOfTheSeed) {
  const std::vector<float> values = Floats(*Small(1), kMatrix, {0, 192}, {0, 576});
  double sum = 0, squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(values.size());
  EXPECT_NEAR(sum / count, 0, 0.001);
  EXPECT_NEAR(std::sqrt(squares / count), 0.02, 0.001);
  EXPECT_NE(values, Floats(*Small(2), kMatrix, {0, 192}, {0, 576}));
  EXPECT_NE(values,
            Floats(*Small(1), "model.layers.4.self_attn.k_proj.weight", {0, 192}, {0, 576}));
  EXPECT_EQ(values, Floats(*Small(1), kMatrix, {0, 192}, {0, 576}));
  EXPECT_THAT(Floats(*Small(1), "model.norm.weight", {0, 1}, {0, 576}), Each(1.0f));
}

TEST(RandomCheckpoint, OtherTypesAreTheSameValuesRounded) {
  const auto checkpoint = Small(1);
  const std::vector<float> floats = Floats(*checkpoint, kMatrix, {2, 3}, {0, 576});
  std::vector<uint16_t> halves(576), bf16s(576);
  ASSERT_TRUE(
      checkpoint->Read(kMatrix, {2, 3}, {0, 576}, DType::kF16, halves.data(), nullptr).ok());
  ASSERT_TRUE(
      checkpoint->Read(kMatrix, {2, 3}, {0, 576}, DType::kBF16, bf16s.data(), nullptr).ok());
  for (size_t i = 0; i < floats.size(); ++i) {
    ASSERT_EQ(halves[i], FloatToHalf(floats[i]));
    ASSERT_EQ(bf16s[i], FloatToBf16(floats[i]));
  }
}

TEST(RandomCheckpoint, IsAModel) {
  const auto large = RandomCheckpoint::Create("1.1b", 1);
  ASSERT_TRUE(large.ok()) << large.status();
  const auto spec = ParseModelSpec((*large)->config());
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->layers, 22);
  EXPECT_FALSE(spec->tied_embeddings);
  int64_t weights = 0;
  for (const TensorInfo& info : (*large)->Tensors()) weights += info.stored_bytes / 2;
  EXPECT_EQ(weights, 1100048384);  // TinyLlama-1.1B's parameters
  EXPECT_TRUE(Small(1)->Find("lm_head.weight").status().code() == absl::StatusCode::kNotFound);
}

TEST(RandomCheckpoint, RefusesWhatIsNotThere) {
  EXPECT_THAT(std::string(RandomCheckpoint::Create("7b", 1).status().message()),
              HasSubstr("1.1b and 135m"));
  float out[600];
  const auto checkpoint = Small(1);
  EXPECT_EQ(checkpoint->Read(kMatrix, {192, 193}, {0, 576}, DType::kF32, out, nullptr).code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_EQ(checkpoint->Read("model.nothing", {0, 1}, {0, 1}, DType::kF32, out, nullptr).code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace penstock
