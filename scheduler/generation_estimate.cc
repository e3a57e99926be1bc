#include "scheduler/generation_estimate.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace penstock {
namespace {

constexpr double kHalfLife = 30;     // seconds of work
constexpr double kLeastSeconds = 1;  // of work, before anything is concluded from it
constexpr double kLeastDepartures = 4;

absl::Status Hopeless(absl::string_view bound, absl::Duration left, absl::string_view event,
                      absl::Duration estimate) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "the ", bound, " is in ", absl::FormatDuration(left), ", but by the present estimate ", event,
      " in ", absl::FormatDuration(absl::Trunc(estimate, absl::Milliseconds(1)))));
}

}  // namespace

void GenerationEstimate::Past::Fade(double seconds_passed) {
  const double kept = std::exp2(-seconds_passed / kHalfLife);
  for (double* sum :
       {&seconds, &departures, &prefill_seconds, &prefill_tokens, &intervals, &interval_seconds})
    *sum *= kept;
}

void GenerationEstimate::OnStep(const StepReport& report) {
  {
    MutexLock lock(&mutex_);
    // Steps in flight overlap: only what has passed since the commit before is new.
    const absl::Time begin = std::max(report.launched, last_commit_);
    const double seconds = std::max(0.0, absl::ToDoubleSeconds(report.committed - begin));
    last_commit_ = std::max(last_commit_, report.committed);
    past_.Fade(seconds);
    past_.seconds += seconds;
    if (report.prefill_tokens > 0) {
      past_.prefill_seconds += seconds;
      past_.prefill_tokens += report.prefill_tokens;
    }
  }
  next_.OnStep(report);
}

void GenerationEstimate::OnToken(absl::Duration since_previous) {
  {
    MutexLock lock(&mutex_);
    past_.intervals += 1;
    past_.interval_seconds += absl::ToDoubleSeconds(since_previous);
  }
  next_.OnToken(since_previous);
}

void GenerationEstimate::OnFinish(const FinishReport& report) {
  {
    MutexLock lock(&mutex_);
    if (report.times.first_scheduled != absl::InfinitePast()) past_.departures += 1;
  }
  next_.OnFinish(report);
}

absl::Duration GenerationEstimate::ToStart(const SchedulerState& state) const {
  MutexLock lock(&mutex_);
  if (state.waiting == 0 || past_.seconds < kLeastSeconds || past_.departures < kLeastDepartures)
    return absl::ZeroDuration();
  return absl::Seconds(state.waiting * past_.seconds / past_.departures);
}

absl::Duration GenerationEstimate::ToFirstToken(const SchedulerState& state,
                                                int64_t prompt_tokens) const {
  const absl::Duration start = ToStart(state);
  MutexLock lock(&mutex_);
  if (past_.seconds < kLeastSeconds || past_.prefill_tokens <= 0) return start;
  return start + absl::Seconds(static_cast<double>(prompt_tokens) * past_.prefill_seconds /
                               past_.prefill_tokens);
}

absl::Duration GenerationEstimate::BetweenTokens() const {
  MutexLock lock(&mutex_);
  if (past_.seconds < kLeastSeconds || past_.intervals <= 0) return absl::ZeroDuration();
  return absl::Seconds(past_.interval_seconds / past_.intervals);
}

absl::Status GenerationEstimate::CheckInTime(const GenerateRequest& request,
                                             const SchedulerState& state, absl::Time now) const {
  const absl::Duration start = ToStart(state);
  if (now + start > request.start_deadline)
    return Hopeless("queue timeout", request.start_deadline - now, "the request would start",
                    start);
  const auto held = static_cast<int64_t>(request.generated.size());
  const auto prompt = static_cast<int64_t>(request.prompt.size()) + held;
  const int64_t tokens = std::max<int64_t>(1, request.min_tokens - held);
  const absl::Duration end = ToFirstToken(state, prompt) + (tokens - 1) * BetweenTokens();
  if (now + end <= request.deadline) return absl::OkStatus();
  return Hopeless("deadline", request.deadline - now, absl::StrCat("token ", tokens, " would come"),
                  end);
}

}  // namespace penstock
