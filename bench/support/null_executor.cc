#include "bench/support/null_executor.h"

#include <algorithm>
#include <thread>

namespace penstock {
namespace {

constexpr uint64_t kOddMultiplier = 0x9E3779B97F4A7C15;  // Knuth's: 2^64 over the golden ratio

int32_t Draw(int64_t step, int64_t row, int32_t vocab) {
  const uint64_t place = static_cast<uint64_t>(step) * 4099 + static_cast<uint64_t>(row);
  return static_cast<int32_t>((place * kOddMultiplier >> 32) % static_cast<uint64_t>(vocab));
}

}  // namespace

void NullExecutor::Launch(StepBatch batch) {
  Launched& launched = steps_.emplace_back();
  launched.step = batch.step;
  launched.samples = std::ssize(batch.samples);
  if (step_time_.count() == 0) return;
  last_ready_ = std::max(last_ready_, Clock::now()) + step_time_;
  launched.ready = last_ready_;
}

absl::StatusOr<StepResult> NullExecutor::Wait() {
  const Launched launched = steps_.front();
  steps_.pop_front();
  if (step_time_.count() > 0) std::this_thread::sleep_until(launched.ready);
  StepResult result;
  result.step = launched.step;
  result.samples.resize(static_cast<size_t>(launched.samples));
  for (int64_t row = 0; row < launched.samples; ++row)
    result.samples[static_cast<size_t>(row)].token = Draw(launched.step, row, info_.vocab);
  return result;
}

}  // namespace penstock
