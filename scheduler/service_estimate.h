#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace penstock {

// How long steps have taken lately: a part per step and a part per token, fitted by least squares
// over the past, in which what is older counts less. Not thread-safe.
class ServiceEstimate {
 public:
  // A step of `tokens` tokens took `time`, not counting what it waited for the step before.
  void Observe(int64_t tokens, absl::Duration time) {
    const auto x = static_cast<double>(tokens);
    const double y = std::max(0.0, absl::ToDoubleSeconds(time));
    for (double* sum : {&steps_, &x_, &y_, &xx_, &xy_}) *sum *= kKept;
    steps_ += 1;
    x_ += x;
    y_ += y;
    xx_ += x * x;
    xy_ += x * y;
  }

  // For `tokens` in `steps` steps; zero until a step was observed.
  absl::Duration TimeFor(int64_t tokens, int64_t steps) const {
    if (steps_ <= 0) return absl::ZeroDuration();
    const double spread = xx_ - x_ * x_ / steps_;
    double per_token = spread > 1e-6 * xx_ ? (xy_ - x_ * y_ / steps_) / spread : 0;
    per_token = std::clamp(per_token, 0.0, x_ > 0 ? y_ / x_ : 0.0);
    const double per_step = (y_ - per_token * x_) / steps_;
    return absl::Seconds(static_cast<double>(tokens) * per_token +
                         static_cast<double>(steps) * per_step);
  }

 private:
  static constexpr double kKept = 0.98;  // of the past, per step

  double steps_ = 0, x_ = 0, y_ = 0, xx_ = 0, xy_ = 0;  // x: tokens, y: seconds
};

}  // namespace penstock
