#pragma once

#include <chrono>

#include "absl/time/time.h"

namespace penstock {

// Time since it was made, by a clock that nobody sets. Copies agree.
class RunClock {
 public:
  absl::Duration Now() const { return absl::FromChrono(std::chrono::steady_clock::now() - begin_); }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace penstock
