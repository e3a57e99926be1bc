#pragma once

#include <cmath>
#include <cstdint>
#include <random>

namespace penstock {

// Random numbers that are the same on every machine: one stream per (seed, purpose, index), so what
// is drawn for one request does not depend on how many others were drawn before.
class RandomStream {
 public:
  enum class Purpose : uint32_t { kArrivals, kLengths, kPrompt, kSharedPrefix };

  RandomStream(uint64_t seed, Purpose purpose, int64_t index) {
    const uint64_t position = static_cast<uint64_t>(index);
    std::seed_seq words{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                        static_cast<uint32_t>(purpose), static_cast<uint32_t>(position),
                        static_cast<uint32_t>(position >> 32)};
    engine_.seed(words);
  }

  // In (0, 1]: its logarithm is finite.
  double Uniform() { return static_cast<double>((engine_() >> 11) + 1) * 0x1p-53; }
  // In [0, bound); `bound` is at least 1.
  int64_t Below(int64_t bound) {
    return static_cast<int64_t>(engine_() %
                                static_cast<uint64_t>(bound));  // bound << 2^64: no bias
  }
  double Exponential(double mean) { return -mean * std::log(Uniform()); }

 private:
  std::mt19937_64
      engine_;  // its values are fixed by the C++ standard; those of distributions are not
};

}  // namespace penstock
