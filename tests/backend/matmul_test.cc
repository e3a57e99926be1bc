#include "tests/backend/cpu_testing.h"

namespace penstock {
namespace {

std::vector<float> Product(Backend& backend, const Matrix& x, const Weight& weight,
                           const Matrix& bias = {}) {
  Floats out(x.rows, weight.rows(), 3);
  backend.dense().MatMul(x, weight, bias, out.view);
  EXPECT_TRUE(backend.Sync().ok()) << backend.Sync();
  return out.Packed();
}

std::vector<double> ExactProduct(Floats& x, const HostWeight& w, Floats* bias) {
  std::vector<double> out;
  for (int64_t m = 0; m < x.view.rows; ++m)
    for (int64_t n = 0; n < w.view.rows; ++n) {
      double sum = bias == nullptr ? 0 : double{bias->at(0, n)};
      for (int64_t k = 0; k < w.view.cols; ++k)
        sum += double{x.at(m, k)} * double{w.values[static_cast<size_t>(n * w.view.cols + k)]};
      out.push_back(sum);
    }
  return out;
}

struct Shape {
  int64_t m, n, k;
};
const Shape kShapes[] = {{1, 32, 64},  {1, 1, 1},     {2, 33, 7},   {3, 31, 17},
                         {5, 48, 100}, {7, 17, 33},   {12, 96, 64}, {13, 64, 50},
                         {25, 40, 9},  {60, 130, 31}, {101, 65, 16}};
const DType kDTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

TEST(MatMulTest, EqualsFloat64ReferenceOnEveryIsa) {
  for (const std::string& isa : AvailableIsaNames()) {
    auto backend = MakeTestBackend(isa, 2);
    for (const Shape& s : kShapes)
      for (const DType dtype : kDTypes) {
        Floats x = Floats::Random(s.m, s.k, 1, 5);
        Floats bias = Floats::Random(1, s.n, 2);
        HostWeight host(s.n, s.k, dtype, 3);
        auto weight = *backend->MakeWeight(host.view);
        EXPECT_EQ(weight->bytes(), backend->WeightBytes(s.n, s.k, dtype));
        EXPECT_LT(LargestError(Product(*backend, x.view, *weight), ExactProduct(x, host, nullptr)),
                  2e-6)
            << isa << " " << s.m << " " << s.n << " " << s.k << " " << Name(dtype);
        EXPECT_LT(LargestError(Product(*backend, x.view, *weight, bias.view),
                               ExactProduct(x, host, &bias)),
                  2e-6);
      }
  }
}

TEST(MatMulTest, IsasAndThreadCountsGiveTheSameBits) {
  for (const Shape& s : kShapes)
    for (const DType dtype : kDTypes) {
      Floats x = Floats::Random(s.m, s.k, 4);
      HostWeight host(s.n, s.k, dtype, 5);
      auto scalar = MakeTestBackend("scalar");
      const std::vector<float> expected = Product(*scalar, x.view, **scalar->MakeWeight(host.view));
      for (const std::string& isa : AvailableIsaNames())
        for (int threads : {1, 2, 5}) {
          auto backend = MakeTestBackend(isa, threads);
          EXPECT_EQ(Product(*backend, x.view, **backend->MakeWeight(host.view)), expected)
              << isa << " " << threads;
        }
    }
}

TEST(MatMulTest, ARowDoesNotDependOnItsBatch) {
  const int64_t rows = 1100, n = 70, k = 45;
  Floats x = Floats::Random(rows, k, 6);
  std::vector<std::string> computes = {"fp32"};
  if (AvailableIsaNames().front() == "avx512bf16") computes.push_back("bf16");
  for (const std::string& compute : computes) {
    auto backend = MakeTestBackend("auto", 2, compute);
    HostWeight host(n, k, DType::kBF16, 7);
    auto weight = *backend->MakeWeight(host.view);
    const std::vector<float> all = Product(*backend, x.view, *weight);
    for (int64_t count : {1, 2, 3, 4, 6, 7, 11, 12, 13, 24, 37, 600})
      for (int64_t begin : {int64_t{0}, int64_t{5}, rows - count}) {
        const std::vector<float> part = Product(*backend, x.view.Rows(begin, count), *weight);
        const std::vector<float> expected(all.begin() + begin * n,
                                          all.begin() + (begin + count) * n);
        EXPECT_EQ(part, expected) << compute << " " << begin << " " << count;
      }
  }
}

TEST(MatMulTest, Bf16DotRoundsActivationsAndSumsInF32) {
  if (AvailableIsaNames().front() != "avx512bf16") {
    EXPECT_FALSE(MakeCpuBackend({.threads = 1, .compute = "bf16"}).ok());
    return;
  }
  auto backend = MakeTestBackend("auto", 2, "bf16");
  EXPECT_EQ(backend->signature(), "cpu/bf16/v1");
  for (const Shape& s : kShapes) {
    Floats x = Floats::Random(s.m, s.k, 8);
    HostWeight host(s.n, s.k, DType::kBF16, 9);
    auto weight = *backend->MakeWeight(host.view);
    EXPECT_EQ(weight->bytes(), backend->WeightBytes(s.n, s.k, DType::kBF16));
    const std::vector<float> out = Product(*backend, x.view, *weight);
    for (float& v : x.data) v = Bf16ToFloat(FloatToBf16(v));
    EXPECT_LT(LargestError(out, ExactProduct(x, host, nullptr)), 2e-6);
  }
}

TEST(MatMulTest, Bf16ModeLeavesOtherWeightsAlone) {
  auto exact = MakeTestBackend("auto", 1);
  auto backend =
      MakeTestBackend("auto", 1, AvailableIsaNames().front() == "avx512bf16" ? "bf16" : "auto");
  Floats x = Floats::Random(4, 33, 10);
  HostWeight host(40, 33, DType::kF16, 11);
  EXPECT_EQ(Product(*backend, x.view, **backend->MakeWeight(host.view)),
            Product(*exact, x.view, **exact->MakeWeight(host.view)));
}

TEST(MatMulTest, WeightsMayHaveAStride) {
  auto backend = MakeTestBackend();
  Floats x = Floats::Random(2, 20, 12);
  Floats wide = Floats::Random(40, 20, 13, 9);
  std::vector<float> packed = wide.Packed();
  EXPECT_EQ(Product(*backend, x.view, **backend->MakeWeight(wide.view)),
            Product(*backend, x.view, **backend->MakeWeight({packed.data(), 40, 20, 20})));
}

TEST(MatMulTest, NotANumberStaysInItsRow) {
  auto backend = MakeTestBackend();
  Floats x = Floats::Random(3, 20, 14);
  HostWeight host(33, 20, DType::kF16, 15);
  auto weight = *backend->MakeWeight(host.view);
  const std::vector<float> clean = Product(*backend, x.view, *weight);
  x.at(1, 7) = NAN;
  const std::vector<float> out = Product(*backend, x.view, *weight);
  for (size_t i = 0; i < out.size(); ++i) {
    if (i / 33 == 1) {
      EXPECT_TRUE(std::isnan(out[i]));
    } else {
      EXPECT_EQ(out[i], clean[i]);
    }
  }
}

TEST(MatMulTest, WrongShapesAreStickyErrors) {
  auto backend = MakeTestBackend();
  Floats x = Floats::Random(2, 20, 16), out(2, 40), wrong(2, 41);
  HostWeight host(40, 20, DType::kF16, 17);
  auto weight = *backend->MakeWeight(host.view);
  backend->dense().MatMul(x.view, *weight, {}, wrong.view);
  EXPECT_EQ(backend->Sync().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(backend->Sync().message().find("MatMul: out must be [2, 40]"), std::string::npos)
      << backend->Sync();
  backend->dense().MatMul(x.view, *weight, {}, out.view);  // correct, but after an error
  EXPECT_FALSE(backend->Sync().ok());
  EXPECT_EQ(out.at(0, 0), 0.0f);
}

}  // namespace
}  // namespace penstock
