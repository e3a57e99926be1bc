#include "shard/checkpoint/gguf_rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace penstock {
namespace {

using nlohmann::json;

constexpr double kLow = 1.0, kHigh = 4.0;
constexpr double kTolerance = 1e-5;  // the divisors are fp32, of a rule computed in fp32

// Llama 3.1's rule for the frequency of `wavelength`.
double Llama3Divisor(double wavelength, double factor, double original) {
  if (wavelength < original / kHigh) return 1.0;
  if (wavelength > original / kLow) return factor;
  const double smooth = (original / wavelength - kLow) / (kHigh - kLow);
  return 1.0 / ((1.0 - smooth) / factor + smooth);
}

bool Explains(double factor, double original, double theta, const std::vector<float>& divisors) {
  const double n = static_cast<double>(divisors.size());
  for (size_t i = 0; i < divisors.size(); ++i) {
    const double wavelength = 2.0 * std::numbers::pi * std::pow(theta, static_cast<double>(i) / n);
    const double expected = Llama3Divisor(wavelength, factor, original);
    if (!(std::abs(double{divisors[i]} - expected) <= kTolerance * expected)) return false;
  }
  return true;
}

}  // namespace

json RopeScalingOfDivisors(const std::vector<float>& divisors, double theta) {
  const float factor =
      divisors.empty() ? 1.0f : *std::max_element(divisors.begin(), divisors.end());
  for (int64_t original = 1024; original <= 1 << 20 && factor > 1.0f; original *= 2)
    if (Explains(double{factor}, static_cast<double>(original), theta, divisors))
      return {{"rope_type", "llama3"},
              {"factor", factor},
              {"low_freq_factor", kLow},
              {"high_freq_factor", kHigh},
              {"original_max_position_embeddings", original}};
  return {{"rope_type", "factors"}, {"factors", divisors}};
}

}  // namespace penstock
