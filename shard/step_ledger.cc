#include "shard/step_ledger.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace penstock {
namespace {

double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

double StepLedger::Grains(double seconds) {
  constexpr double kPerSecond = 1 << 20;
  return std::floor(seconds * kPerSecond) / kPerSecond;
}

void StepLedger::Launch(int64_t step) {
  ++unclaimed_;
  SetOutstanding(outstanding_ + 1);
  Unfinished& unfinished = unfinished_.emplace_back();
  const auto stages = static_cast<size_t>(plan_.pipeline());
  unfinished.missing = plan_.pipeline();
  unfinished.given.resize(stages);
  unfinished.result.step = step;
  unfinished.result.stages.resize(stages);
}

absl::Status StepLedger::Add(int rank, StepResult share) {
  if (plan_.tensor_rank(rank) != 0) return absl::OkStatus();
  const auto stage = static_cast<size_t>(plan_.stage(rank));
  const int64_t at = unfinished_.empty() ? -1 : share.step - unfinished_.front().result.step;
  if (at < 0 || at >= std::ssize(unfinished_) || unfinished_[static_cast<size_t>(at)].given[stage])
    return absl::InternalError(
        absl::StrCat("rank ", rank, " tells of step ", share.step, ", which nobody waits for"));
  Unfinished& step = unfinished_[static_cast<size_t>(at)];
  const StageTiming timing = share.stages.front();
  if (rank == plan_.driver()) {
    share.stages = std::move(step.result.stages);
    step.result = std::move(share);
  }
  step.result.stages[stage] = timing;
  step.given[stage] = true;
  --step.missing;
  for (; !unfinished_.empty() && unfinished_.front().missing == 0; unfinished_.pop_front()) {
    results_.push_back(std::move(unfinished_.front().result));
    SetOutstanding(outstanding_ - 1);
  }
  return absl::OkStatus();
}

StepResult StepLedger::Take() {
  --unclaimed_;
  StepResult result = std::move(results_.front());
  results_.pop_front();
  return result;
}

void StepLedger::Stop() { SetOutstanding(0); }

void StepLedger::Clear() {
  SetOutstanding(0);
  unfinished_.clear();
  results_.clear();
  unclaimed_ = 0;
}

void StepLedger::SetOutstanding(int count) {
  const Clock::time_point now = Clock::now();
  if (outstanding_ == 0 && count > 0) active_since_ = now;
  if (outstanding_ > 0 && count == 0) active_ += now - active_since_;
  outstanding_ = count;
}

PipelineStats StepLedger::Time() const {
  const Clock::time_point now = Clock::now();
  const Clock::duration active =
      active_ + (outstanding_ > 0 ? now - active_since_ : Clock::duration::zero());
  PipelineStats stats;
  stats.active = Grains(Seconds(active));
  stats.elapsed = stats.active + Grains(Seconds(now - created_ - active));
  return stats;
}

}  // namespace penstock
