#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "shard/backend/cpu/cpu_backend.h"
#include "shard/backend/cpu/isa.h"
#include "shard/base/half.h"

namespace penstock {

inline std::unique_ptr<Backend> MakeTestBackend(const std::string& isa = "auto", int threads = 1,
                                                const std::string& compute = "auto") {
  auto backend = MakeCpuBackend({.threads = threads, .isa = isa, .compute = compute});
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *std::move(backend);
}

// Deterministic numbers in [-1, 1).
inline std::vector<float> RandomFloats(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> out(static_cast<size_t>(count));
  for (float& x : out) x = static_cast<float>(random() >> 8) * 0x1p-23f - 1.0f;
  return out;
}

// A matrix that owns its numbers on the host; with a wider stride than columns when asked.
template <typename T>
struct HostMatrix {
  HostMatrix(int64_t rows, int64_t cols, DType dtype, int64_t gap = 0)
      : data(static_cast<size_t>(rows * (cols + gap) + 1)),
        view{data.data(), rows, cols, cols + gap, dtype} {}
  T& at(int64_t row, int64_t col) { return data[static_cast<size_t>(row * view.stride + col)]; }
  std::vector<T> data;
  Matrix view;
};

struct Floats : HostMatrix<float> {
  Floats(int64_t rows, int64_t cols, int64_t gap = 0)
      : HostMatrix<float>(rows, cols, DType::kF32, gap) {}
  static Floats Random(int64_t rows, int64_t cols, uint32_t seed, int64_t gap = 0) {
    Floats out(rows, cols, gap);
    const std::vector<float> numbers = RandomFloats(rows * cols, seed);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) out.at(r, c) = numbers[static_cast<size_t>(r * cols + c)];
    return out;
  }
  // Without the gaps.
  std::vector<float> Packed() {
    std::vector<float> out;
    for (int64_t r = 0; r < view.rows; ++r)
      for (int64_t c = 0; c < view.cols; ++c) out.push_back(at(r, c));
    return out;
  }
};

struct Ints : HostMatrix<int32_t> {
  explicit Ints(const std::vector<int32_t>& row)
      : HostMatrix<int32_t>(1, static_cast<int64_t>(row.size()), DType::kI32) {
    std::copy(row.begin(), row.end(), data.begin());
  }
};

// A weight's numbers in its dtype and what they are as floats.
struct HostWeight {
  HostWeight(int64_t rows, int64_t cols, DType dtype, uint32_t seed)
      : values(RandomFloats(rows * cols, seed)), view{nullptr, rows, cols, cols, dtype} {
    for (float& x : values) {
      x *= 0.1f;
      if (dtype == DType::kF16) x = HalfToFloat(halves.emplace_back(FloatToHalf(x)));
      if (dtype == DType::kBF16) x = Bf16ToFloat(halves.emplace_back(FloatToBf16(x)));
    }
    view.data = dtype == DType::kF32 ? static_cast<void*>(values.data()) : halves.data();
  }
  std::vector<float> values;
  std::vector<uint16_t> halves;
  Matrix view;
};

inline std::vector<std::string> AvailableIsaNames() {
  std::vector<std::string> names;
  for (const Isa& isa : AvailableIsas()) names.emplace_back(isa.name);
  return names;
}

// Largest |a - b| relative to 1 + |b|.
template <typename A, typename B>
double LargestError(const std::vector<A>& a, const std::vector<B>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double error = std::abs(double{a[i]} - double{b[i]}) / (1 + std::abs(double{b[i]}));
    if (!(error <= largest)) largest = error;
  }
  return largest;
}

}  // namespace penstock
