#include <cmath>
#include <cstring>
#include <limits>

#include "gmock/gmock.h"
#include "tests/backend/cpu_testing.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;

const int64_t kWidths[] = {1, 15, 16, 17, 64, 100, 384};

// (x - mean) / sqrt(variance + eps) * weight + bias
std::vector<double> Normed(Floats& x, Floats& weight, Floats& bias, double eps) {
  std::vector<double> out;
  const auto width = static_cast<double>(x.view.cols);
  for (int64_t r = 0; r < x.view.rows; ++r) {
    double mean = 0, variance = 0;
    for (int64_t c = 0; c < x.view.cols; ++c) mean += x.at(r, c) / width;
    for (int64_t c = 0; c < x.view.cols; ++c) variance += std::pow(x.at(r, c) - mean, 2) / width;
    for (int64_t c = 0; c < x.view.cols; ++c)
      out.push_back((x.at(r, c) - mean) / std::sqrt(variance + eps) * weight.at(0, c) +
                    bias.at(0, c));
  }
  return out;
}

TEST(EncoderOpsTest, LayerNormEqualsReferenceFarFromZeroToo) {
  for (const std::string& isa : AvailableIsaNames()) {
    auto backend = MakeTestBackend(isa);
    for (const int64_t width : kWidths) {
      Floats x = Floats::Random(3, width, 1, 2), out(3, width, 7);
      for (int64_t c = 0; c < width; ++c) x.at(1, c) += 30;
      Floats weight = Floats::Random(1, width, 2), bias = Floats::Random(1, width, 3);
      backend->encoder().LayerNorm(x.view, weight.view, bias.view, 1e-5f, out.view);
      EXPECT_LT(LargestError(out.Packed(), Normed(x, weight, bias, 1e-5)), 2e-5)
          << isa << " " << width;
      const std::vector<double> plain = Normed(x, weight, bias, 1e-5);
      for (int64_t c = 0; c < width; ++c)
        EXPECT_NEAR(out.at(0, c), plain[static_cast<size_t>(c)], 2e-6) << isa << " " << width;
    }
    EXPECT_TRUE(backend->Sync().ok());
  }
}

TEST(EncoderOpsTest, AddLayerNormIsAddThenLayerNorm) {
  auto backend = MakeTestBackend("auto", 2);
  for (const int64_t width : kWidths) {
    Floats inout = Floats::Random(70, width, 3), delta = Floats::Random(70, width, 4);
    Floats weight = Floats::Random(1, width, 5), bias = Floats::Random(1, width, 6);
    Floats expected = inout;
    expected.view.data = expected.data.data();
    backend->dense().Add(delta.view, expected.view);
    backend->encoder().LayerNorm(expected.view, weight.view, bias.view, 1e-12f, expected.view);
    backend->encoder().AddLayerNorm(delta.view, weight.view, bias.view, 1e-12f, inout.view);
    EXPECT_EQ(inout.data, expected.data);
  }
  EXPECT_TRUE(backend->Sync().ok());
}

struct Function {
  Activation activation;
  double (*reference)(double);
  double relative;  // error, relative to |reference| where it is above 1e-3
};
const Function kFunctions[] = {
    {Activation::kGelu, [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }, 2e-6},
    {Activation::kGeluTanh,
     [](double x) {
       return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
     },
     2e-6},
    {Activation::kRelu, [](double x) { return x > 0 ? x : 0.0; }, 0},
    {Activation::kTanh, [](double x) { return std::tanh(x); }, 3e-7},
};

TEST(EncoderOpsTest, ActivationsAreAccurate) {
  for (const std::string& isa : AvailableIsaNames()) {
    auto backend = MakeTestBackend(isa);
    for (const Function& function : kFunctions) {
      std::vector<float> x;
      for (int i = -60000; i <= 60000; ++i) x.push_back(static_cast<float>(i) * 2e-4f + 3e-5f);
      for (float tiny = 1e-30f; tiny < 1; tiny *= 3) x.insert(x.end(), {tiny, -tiny});
      Floats out(1, static_cast<int64_t>(x.size()));
      std::copy(x.begin(), x.end(), out.data.begin());
      backend->encoder().Activate(function.activation, out.view);
      for (size_t i = 0; i < x.size(); ++i) {
        const double expected = function.reference(x[i]);
        const double bound = std::abs(expected) * 4e-7 + (x[i] < 0 ? 3e-7 : 0);
        ASSERT_NEAR(out.data[i], expected, bound) << isa << " " << x[i];
        if (std::abs(expected) <= 1e-3) continue;
        ASSERT_NEAR(out.data[i] / expected, 1, function.relative) << isa << " " << x[i];
      }
    }
  }
}

TEST(EncoderOpsTest, ActivationsOfExtremesAreTheirLimits) {
  for (const std::string& isa : AvailableIsaNames()) {
    auto backend = MakeTestBackend(isa);
    const float most = 1e30f;
    for (const Function& function : kFunctions) {
      Floats out(1, 3);
      out.data = {-most, 0, most, 0};
      out.view.data = out.data.data();
      backend->encoder().Activate(function.activation, out.view);
      const bool tanh = function.activation == Activation::kTanh;
      EXPECT_NEAR(out.at(0, 0), tanh ? -1 : 0, 1e-6) << isa;
      EXPECT_EQ(out.at(0, 1), 0) << isa;
      EXPECT_EQ(out.at(0, 2), tanh ? 1 : most) << isa;
    }
  }
}

TEST(EncoderOpsTest, InstructionSetsGiveTheSameBits) {
  std::vector<std::vector<float>> results;
  for (const std::string& isa : AvailableIsaNames()) {
    auto backend = MakeTestBackend(isa);
    std::vector<float>& all = results.emplace_back();
    const auto keep = [&](Floats& matrix) {
      const std::vector<float> packed = matrix.Packed();
      all.insert(all.end(), packed.begin(), packed.end());
    };
    Floats weight = Floats::Random(1, 75, 1), bias = Floats::Random(1, 75, 2);
    for (const Function& function : kFunctions) {
      Floats x = Floats::Random(40, 75, 3, 1);
      for (float& v : x.data) v *= 12;
      backend->encoder().Activate(function.activation, x.view);
      keep(x);
    }
    Floats x = Floats::Random(40, 75, 4, 1), delta = Floats::Random(40, 75, 5);
    backend->encoder().AddLayerNorm(delta.view, weight.view, bias.view, 1e-12f, x.view);
    keep(x);
    Ints begin({0, 1, 18, 40});
    Floats means(3, 75);
    backend->encoder().MeanRows(x.view, begin.view, means.view);
    backend->encoder().NormalizeRows(means.view);
    keep(means);
    EXPECT_TRUE(backend->Sync().ok());
  }
  for (const auto& result : results)
    EXPECT_EQ(std::memcmp(result.data(), results[0].data(), result.size() * sizeof(float)), 0);
}

TEST(EncoderOpsTest, MeanRowsIsTheMeanOfEachSequence) {
  auto backend = MakeTestBackend("auto", 2);
  Floats x = Floats::Random(300, 33, 6, 3), out(3, 33, 1);
  Ints begin({0, 1, 260, 300});
  backend->encoder().MeanRows(x.view, begin.view, out.view);
  std::vector<double> expected;
  for (int s = 0; s < 3; ++s)
    for (int64_t c = 0; c < 33; ++c) {
      double sum = 0;
      const int32_t from = begin.data[static_cast<size_t>(s)];
      const int32_t to = begin.data[static_cast<size_t>(s) + 1];
      for (int64_t r = from; r < to; ++r) sum += x.at(r, c);
      expected.push_back(sum / (to - from));
    }
  EXPECT_LT(LargestError(out.Packed(), expected), 1e-6);
  EXPECT_TRUE(backend->Sync().ok());
  Ints empty({0, 0, 260, 300});
  backend->encoder().MeanRows(x.view, empty.view, out.view);
  EXPECT_THAT(std::string(backend->Sync().message()), HasSubstr("MeanRows"));
}

TEST(EncoderOpsTest, NormalizedRowsHaveLengthOne) {
  auto backend = MakeTestBackend();
  Floats x = Floats::Random(5, 77, 7, 3);
  for (int64_t c = 0; c < 77; ++c) x.at(3, c) = 0;
  Floats before = x;
  backend->encoder().NormalizeRows(x.view);
  for (int64_t r = 0; r < 5; ++r) {
    double squares = 0;
    for (int64_t c = 0; c < 77; ++c) squares += double{x.at(r, c)} * x.at(r, c);
    EXPECT_NEAR(squares, r == 3 ? 0 : 1, 1e-6);
    EXPECT_EQ(std::signbit(x.at(r, 5)), std::signbit(before.at(r, 5)));
  }
}

}  // namespace
}  // namespace penstock
