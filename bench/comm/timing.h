#pragma once

#include <chrono>

namespace penstock {

// Seconds of one step() out of `count`, after some that are not measured.
template <typename Step>
double TimeSteps(int count, Step step) {
  for (int i = 0; i < count / 8 + 1; ++i) step();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) step();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / count;
}

}  // namespace penstock
