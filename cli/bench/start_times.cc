#include "cli/bench/start_times.h"

namespace penstock {

ClosedLoop::ClosedLoop(int32_t concurrency) {
  for (int32_t i = 0; i < concurrency; ++i) free_.push(absl::ZeroDuration());
}

std::optional<absl::Duration> ClosedLoop::next() const {
  return free_.empty() ? absl::InfiniteDuration() : free_.top();
}

void ClosedLoop::OnEnd(absl::Duration at, bool ok) {
  free_.push(ok ? at : at + kPauseAfterFailure);
}

PoissonArrivals::PoissonArrivals(double rate, uint64_t seed)
    : mean_gap_(1 / rate), random_(seed, RandomStream::Purpose::kArrivals, 0) {
  next_ = absl::Seconds(random_.Exponential(mean_gap_));
}

void PoissonArrivals::OnStart() { next_ += absl::Seconds(random_.Exponential(mean_gap_)); }

std::optional<absl::Duration> TraceArrivals::next() const {
  if (position_ == rows_.size()) return std::nullopt;
  return rows_[position_].arrival;
}

}  // namespace penstock
