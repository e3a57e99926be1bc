#include <cstring>
#include <limits>

#include "tests/backend/cpu_testing.h"

namespace penstock {
namespace {

const int64_t kWidths[] = {1, 15, 16, 17, 64, 100, 576};

double Rms(Floats& x, int64_t row, int64_t begin, int64_t width, double eps) {
  double squares = 0;
  for (int64_t c = begin; c < begin + width; ++c) squares += double{x.at(row, c)} * x.at(row, c);
  return std::sqrt(squares / static_cast<double>(width) + eps);
}

TEST(DenseTest, RmsNormEqualsReference) {
  for (const std::string& isa : AvailableIsaNames()) {
    auto backend = MakeTestBackend(isa);
    for (int64_t width : kWidths) {
      Floats x = Floats::Random(3, width, 1, 2), weight = Floats::Random(1, width, 2);
      Floats out(3, width, 7);
      backend->dense().RmsNorm(x.view, weight.view, 1e-5f, out.view);
      std::vector<double> expected;
      for (int64_t r = 0; r < 3; ++r)
        for (int64_t c = 0; c < width; ++c)
          expected.push_back(x.at(r, c) / Rms(x, r, 0, width, 1e-5) * weight.at(0, c));
      EXPECT_LT(LargestError(out.Packed(), expected), 1e-6) << isa << " " << width;
    }
    EXPECT_TRUE(backend->Sync().ok());
  }
}

TEST(DenseTest, AddRmsNormIsAddThenRmsNorm) {
  auto backend = MakeTestBackend("auto", 2);
  for (int64_t width : kWidths) {
    Floats residual = Floats::Random(70, width, 3), delta = Floats::Random(70, width, 4);
    Floats weight = Floats::Random(1, width, 5);
    Floats sum = residual, expected(70, width), out(70, width);
    sum.view.data = sum.data.data();
    backend->dense().Add(delta.view, sum.view);
    backend->dense().RmsNorm(sum.view, weight.view, 1e-6f, expected.view);
    backend->dense().AddRmsNorm(delta.view, weight.view, 1e-6f, residual.view, out.view);
    EXPECT_EQ(residual.data, sum.data);
    EXPECT_EQ(out.data, expected.data);
  }
  EXPECT_TRUE(backend->Sync().ok());
}

TEST(DenseTest, HeadRmsNormEqualsReference) {
  auto backend = MakeTestBackend();
  Floats x = Floats::Random(5, 3 * 20, 6, 4), weight = Floats::Random(1, 20, 7);
  std::vector<double> expected;
  for (int64_t r = 0; r < 5; ++r)
    for (int64_t c = 0; c < 60; ++c)
      expected.push_back(x.at(r, c) / Rms(x, r, c / 20 * 20, 20, 1e-6) * weight.at(0, c % 20));
  backend->dense().HeadRmsNorm(weight.view, 1e-6f, 20, x.view);
  EXPECT_LT(LargestError(x.Packed(), expected), 1e-6);
  backend->dense().HeadRmsNorm(weight.view, 1e-6f, 7, x.view);
  EXPECT_EQ(backend->Sync().code(), absl::StatusCode::kInvalidArgument);
}

TEST(DenseTest, SiluMulEqualsReference) {
  auto backend = MakeTestBackend("auto", 2);
  for (int64_t width : kWidths) {
    Floats gate_up = Floats::Random(40, 2 * width, 8), out(40, width);
    for (float& x : gate_up.data) x *= 20;
    std::vector<double> expected;
    for (int64_t r = 0; r < 40; ++r)
      for (int64_t c = 0; c < width; ++c) {
        const double g = gate_up.at(r, c);
        expected.push_back(g / (1 + std::exp(-g)) * gate_up.at(r, width + c));
      }
    backend->dense().SiluMul(gate_up.view, out.view);
    EXPECT_LT(LargestError(out.Packed(), expected), 1e-6);
  }
}

// Whole panels of gate and up, and widths whose panels have rows of both; few rows, and so many
// that threads have rows of their own.
TEST(DenseTest, FusedProductsGiveTheSameBits) {
  constexpr int64_t kInputs = 40;
  for (const std::string compute : {"fp32", "bf16"}) {
    if (compute == "bf16" && AvailableIsaNames().front() != "avx512bf16") continue;
    auto backend = MakeTestBackend("auto", 3, compute);
    for (const int64_t width : {32, 50, 96}) {
      HostWeight host(2 * width, kInputs, DType::kBF16, 21);
      const auto weight = *backend->MakeWeight(host.view);
      Floats bias = Floats::Random(1, 2 * width, 22);
      for (const int64_t rows : {1, 13, 61, 500}) {
        Floats x = Floats::Random(rows, kInputs, 23), scratch(rows, 2 * width);
        Floats product(rows, 2 * width), expected(rows, width), fused(rows, width);
        backend->dense().MatMul(x.view, *weight, bias.view, product.view);
        backend->dense().SiluMul(product.view, expected.view);
        backend->dense().MatMulSiluMul(x.view, *weight, bias.view, scratch.view, fused.view);
        EXPECT_EQ(fused.data, expected.data) << compute << " " << width << " " << rows;

        Floats activated(rows, 2 * width);
        backend->encoder().Activate(Activation::kGelu, product.view);
        backend->dense().MatMulActivate(x.view, *weight, bias.view, Activation::kGelu,
                                        activated.view);
        EXPECT_EQ(activated.data, product.data) << compute << " " << width << " " << rows;
      }
    }
    EXPECT_TRUE(backend->Sync().ok());
  }
}

TEST(DenseTest, FusedProductsRefuseOperandsThatDoNotFit) {
  auto backend = MakeTestBackend();
  HostWeight host(64, 8, DType::kF32, 24);
  const auto weight = *backend->MakeWeight(host.view);
  Floats x = Floats::Random(2, 8, 25), scratch(2, 64), out(2, 31);
  backend->dense().MatMulSiluMul(x.view, *weight, {}, scratch.view, out.view);
  EXPECT_EQ(backend->Sync().code(), absl::StatusCode::kInvalidArgument);
}

TEST(DenseTest, SiluMulOfExtremesIsFinite) {
  auto backend = MakeTestBackend();
  Floats gate_up(1, 8), out(1, 4);
  const float most = std::numeric_limits<float>::max();
  gate_up.data = {-1000, 1000, -most, most, 1, 1, 1, 1, 0};
  gate_up.view.data = gate_up.data.data();
  backend->dense().SiluMul(gate_up.view, out.view);
  EXPECT_NEAR(out.at(0, 0), 0, 1e-30);
  EXPECT_EQ(out.at(0, 1), 1000);
  EXPECT_LE(std::abs(out.at(0, 2)), 3.0f);  // -3.4e38 / e^88
  EXPECT_EQ(out.at(0, 3), most);
}

// exp((x - highest) * scale) of all of x, at least `least`.
std::vector<float> Weigh(const Isa& isa, const std::vector<float>& x, float highest, float scale,
                         float least, std::vector<float>* sums, std::vector<float>* most) {
  std::vector<float> weights(x.size());
  sums->resize((x.size() + kWeightBlock - 1) / kWeightBlock);
  most->resize(sums->size());
  isa.kernels->weigh(
      {x.data(), std::ssize(x), highest, scale, least, weights.data(), sums->data(), most->data()});
  return weights;
}

TEST(DenseTest, WeightsAreAccurate) {
  for (const Isa& isa : AvailableIsas()) {
    std::vector<float> x, sums, most;
    for (int i = -8730; i <= 0; ++i) x.push_back(static_cast<float>(i) * 0.01f);
    const std::vector<float> weights = Weigh(isa, x, 0, 1, 0, &sums, &most);
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_NEAR(weights[i] / std::exp(double{x[i]}), 1, 2e-7) << isa.name << " " << x[i];
    for (size_t block = 0; block < sums.size(); ++block) {
      double sum = 0;
      const size_t end = std::min(x.size(), (block + 1) * kWeightBlock);
      for (size_t i = block * kWeightBlock; i < end; ++i) sum += weights[i];
      ASSERT_NEAR(sums[block] / sum, 1, 2e-6) << isa.name << " " << block;
      ASSERT_EQ(most[block], weights[end - 1]);
    }
    const float infinity = std::numeric_limits<float>::infinity();
    EXPECT_EQ(Weigh(isa, {0, -infinity, -100, NAN, infinity, 1, -1}, 0, 1, 0.5f, &sums, &most),
              std::vector<float>({1, 0, 0, 0, 0, 0, 0}))
        << isa.name;
  }
}

TEST(DenseTest, HighestFiniteLogit) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const Isa& isa : AvailableIsas()) {
    for (int64_t size : {1, 15, 64, 65, 300}) {
      std::vector<float> x(static_cast<size_t>(size), NAN);
      EXPECT_EQ(isa.kernels->highest_finite(x.data(), size), -infinity);
      x.back() = -3;
      EXPECT_EQ(isa.kernels->highest_finite(x.data(), size), -3) << isa.name << " " << size;
      x.front() = infinity;
      EXPECT_EQ(isa.kernels->highest_finite(x.data(), size), size == 1 ? -infinity : -3);
      x.front() = std::numeric_limits<float>::max();
      EXPECT_EQ(isa.kernels->highest_finite(x.data(), size), std::numeric_limits<float>::max());
    }
  }
}

// Every elementwise kernel over random inputs of any size: all instruction sets must agree bit by
// bit with the scalar one.
TEST(DenseTest, IsasGiveTheSameBits) {
  for (int64_t width : {1, 7, 16, 31, 64, 200, 577}) {
    const std::vector<float> a = RandomFloats(2 * width, 9), b = RandomFloats(2 * width, 10);
    std::vector<std::vector<float>> results;
    for (const Isa& isa : AvailableIsas()) {
      const KernelTable& k = *isa.kernels;
      std::vector<float> all;
      std::vector<float> out(static_cast<size_t>(2 * width)), copy = a;
      const auto keep = [&](const std::vector<float>& v) {
        all.insert(all.end(), v.begin(), v.end());
      };
      k.rms_norm(a.data(), b.data(), 1e-5f, width, out.data());
      keep(out);
      k.add_rms_norm(b.data(), b.data() + width, 1e-5f, width, copy.data(), out.data());
      keep(copy);
      keep(out);
      k.add(b.data(), width, copy.data());
      keep(copy);
      k.silu_mul(a.data(), b.data(), width, out.data());
      keep(out);
      k.rotate(a.data(), a.data() + width, width, copy.data());
      keep(copy);
      std::vector<float> sums, most;
      keep(Weigh(isa, a, 0.3f, 17.0f, 0.1f, &sums, &most));
      keep(sums);
      keep(most);
      results.push_back(all);
    }
    for (const auto& result : results)
      EXPECT_EQ(std::memcmp(result.data(), results.back().data(), result.size() * 4), 0) << width;
  }
}

TEST(DenseTest, EmbedFindsRowsAndZerosOthers) {
  std::vector<std::string> computes = {"fp32"};
  if (AvailableIsaNames().front() == "avx512bf16") computes.push_back("bf16");
  for (const std::string& compute : computes) {
    auto backend = MakeTestBackend("auto", 2, compute);
    for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      HostWeight host(50, 19, dtype, 11);
      auto table = *backend->MakeWeight(host.view);
      Ints ids({100, 149, 99, 150, -5, 131});
      Floats out = Floats::Random(6, 19, 12);
      backend->dense().Embed(*table, ids.view, 100, out.view);
      ASSERT_TRUE(backend->Sync().ok());
      for (int64_t i = 0; i < 6; ++i)
        for (int64_t c = 0; c < 19; ++c) {
          const int row = ids.at(0, i) - 100;
          const float expected =
              row < 0 || row >= 50 ? 0.0f : host.values[static_cast<size_t>(row * 19 + c)];
          EXPECT_EQ(out.at(i, c), expected);
        }
    }
  }
}

TEST(DenseTest, GatherAndCopy) {
  auto backend = MakeTestBackend("auto", 2);
  Floats x = Floats::Random(6, 5, 13, 2), out(3, 5, 1), copy(6, 5);
  Ints rows({5, 0, 5});
  backend->dense().GatherRows(x.view, rows.view, out.view);
  backend->dense().Copy(x.view, copy.view);
  ASSERT_TRUE(backend->Sync().ok());
  for (int64_t c = 0; c < 5; ++c) {
    EXPECT_EQ(out.at(0, c), x.at(5, c));
    EXPECT_EQ(out.at(1, c), x.at(0, c));
    EXPECT_EQ(out.at(2, c), x.at(5, c));
  }
  EXPECT_EQ(copy.Packed(), x.Packed());
  Ints bad({0, 6, 1});
  backend->dense().GatherRows(x.view, bad.view, out.view);
  EXPECT_EQ(backend->Sync().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace penstock
