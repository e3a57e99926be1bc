#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cli/bench/random_stream.h"

namespace penstock {

// Lengths in tokens, at least 1: all the same ("64"), uniform with both ends included
// ("uniform:16-256"), or falling off exponentially around a mean ("exponential:64"; as whole
// numbers that is the geometric distribution).
class LengthDistribution {
 public:
  enum class Shape { kFixed, kUniform, kExponential };

  static LengthDistribution Fixed(int32_t length) { return {Shape::kFixed, length, length}; }
  static LengthDistribution Uniform(int32_t least, int32_t most) {
    return {Shape::kUniform, least, most};
  }
  static LengthDistribution Exponential(int32_t mean) { return {Shape::kExponential, mean, mean}; }

  int32_t Draw(RandomStream& random) const;
  std::string ToString() const;
  // No length is above; that of an exponential one has no end.
  int32_t most() const {
    return shape_ == Shape::kExponential ? std::numeric_limits<int32_t>::max() : second_;
  }

 private:
  LengthDistribution(Shape shape, int32_t first, int32_t second)
      : shape_(shape), first_(first), second_(second) {}

  Shape shape_;
  int32_t first_, second_;  // the length; least and most; the mean
};

// For cli/setting_table.h.
absl::Status ParseSetting(absl::string_view text, LengthDistribution* value);
std::string FormatSetting(const LengthDistribution& value);

}  // namespace penstock
