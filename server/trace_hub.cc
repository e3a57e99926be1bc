#include "server/trace_hub.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"

namespace penstock {
namespace {

int64_t Rows(const TracedStep& step) {
  return 1 + static_cast<int64_t>(step.report.shares.size() + step.report.stages.size());
}

}  // namespace

bool TraceRecording::Fits(int64_t rows) {
  if (rows_ + rows > capacity_) return false;
  rows_ += rows;
  return true;
}

void TraceRecording::Add(const std::shared_ptr<const TracedStep>& step) {
  MutexLock lock(&mutex_);
  if (step->report.launched >= end_) {
    in_flight_[step->replica] = false;  // steps are committed in the order of their launch
  } else if (Fits(Rows(*step))) {
    steps_.push_back(step);
  } else {
    ++lost_steps_;
  }
}

void TraceRecording::Add(const TracedState& state) {
  MutexLock lock(&mutex_);
  if (state.at >= end_) {
    if (state.state.in_flight == 0) in_flight_[state.replica] = false;
    return;
  }
  in_flight_[state.replica] = state.state.in_flight > 0;
  if (Fits(1)) {
    states_.push_back(state);
  } else {
    ++lost_states_;
  }
}

void TraceRecording::SetEnd(absl::Time end) {
  MutexLock lock(&mutex_);
  end_ = end;
}

bool TraceRecording::settled() const {
  MutexLock lock(&mutex_);
  return std::none_of(in_flight_.begin(), in_flight_.end(),
                      [](const auto& replica) { return replica.second; });
}

TraceRecording::Batch TraceRecording::Take(int64_t rows) {
  MutexLock lock(&mutex_);
  Batch batch;
  int64_t taken = 0;
  while (!steps_.empty() && taken < rows) {
    taken += Rows(*steps_.front());
    batch.steps.push_back(std::move(steps_.front()));
    steps_.pop_front();
  }
  while (!states_.empty() && taken < rows) {
    ++taken;
    batch.states.push_back(states_.front());
    states_.pop_front();
  }
  rows_ -= taken;
  batch.lost_steps = std::exchange(lost_steps_, 0);
  batch.lost_states = std::exchange(lost_states_, 0);
  batch.more = !steps_.empty() || !states_.empty();
  return batch;
}

void TraceHub::Add(std::shared_ptr<TraceRecording> recording) {
  MutexLock lock(&mutex_);
  recordings_.push_back(std::move(recording));
  tracers_.store(static_cast<int>(recordings_.size()), std::memory_order_release);
}

void TraceHub::Remove(const std::shared_ptr<TraceRecording>& recording) {
  MutexLock lock(&mutex_);
  recordings_.erase(std::remove(recordings_.begin(), recordings_.end(), recording),
                    recordings_.end());
  tracers_.store(static_cast<int>(recordings_.size()), std::memory_order_release);
}

void TraceHub::Tell(TracedStep step) {
  const auto shared = std::make_shared<const TracedStep>(std::move(step));
  MutexLock lock(&mutex_);
  for (const auto& recording : recordings_) recording->Add(shared);
}

void TraceHub::OnStep(int replica, const StepReport& report) { Tell({replica, false, report}); }

void TraceHub::OnBatch(int replica, const BatchReport& report) {
  StepReport step;
  step.step = report.step;
  step.epoch = report.epoch;
  step.sequences = report.requests;
  step.prefill_sequences = report.requests;
  step.prefill_tokens = static_cast<int32_t>(report.tokens);
  step.launched = report.launched;
  step.committed = report.committed;
  step.stages = report.stages;
  step.shares = report.shares;
  Tell({replica, true, std::move(step)});
}

void TraceHub::OnState(int replica, const SchedulerState& state) {
  const TracedState told{replica, absl::Now(), state};
  MutexLock lock(&mutex_);
  for (const auto& recording : recordings_) recording->Add(told);
}

}  // namespace penstock
