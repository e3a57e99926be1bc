#pragma once

#include <algorithm>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace penstock {

// When to try again to restart a failed executor: at once, then after pauses that double; once the
// time allowed since the failure has passed, at long intervals. Has no clock of its own.
class RestartBackoff {
 public:
  static constexpr absl::Duration kFirstPause = absl::Milliseconds(50);
  static constexpr absl::Duration kLongestPause = absl::Seconds(5);

  RestartBackoff(absl::Status cause, absl::Time failed_at, absl::Duration allowed)
      : cause_(std::move(cause)), give_up_(failed_at + allowed), next_attempt_(failed_at) {}

  const absl::Status& cause() const { return cause_; }  // the first failure
  absl::Time next_attempt() const { return next_attempt_; }

  // An attempt failed at `now`. False when the time is up.
  bool OnFailedAttempt(absl::Time now) {
    const bool in_time = now < give_up_;
    next_attempt_ = in_time ? std::min(now + pause_, give_up_) : now + kLongestPause;
    pause_ = std::min(2 * pause_, kLongestPause);
    return in_time;
  }

 private:
  absl::Status cause_;
  absl::Time give_up_;
  absl::Time next_attempt_;
  absl::Duration pause_ = kFirstPause;
};

}  // namespace penstock
