#pragma once

#include <algorithm>

namespace penstock {

// What is told of a stage's busy time while steps run, so that it can be a counter. Not
// thread-safe.
class BusyMeter {
 public:
  // `estimate`: seconds of computing, those of the running step so far included; it falls when that
  // step ends and turns out to have waited for other ranks. `active`: seconds with a step in
  // flight; never falls. The result follows the estimate as closely as it can while neither it nor
  // `active` less the result ever falls.
  double Tell(double estimate, double active) {
    busy_ += std::clamp(estimate - busy_, 0.0, active - active_);
    active_ = active;
    return busy_;
  }

 private:
  double busy_ = 0, active_ = 0;  // as told last
};

}  // namespace penstock
