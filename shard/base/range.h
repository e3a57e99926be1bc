#pragma once

#include <cstdint>

namespace penstock {

// A half-open interval [begin, end).
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  constexpr int64_t size() const { return end - begin; }
  constexpr bool operator==(const Range&) const = default;
};

}  // namespace penstock
