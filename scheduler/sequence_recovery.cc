// What SequenceRunner does when a step fails: the executor has failed, not the requests.

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "scheduler/sequence_runner.h"

namespace penstock {

void SequenceRunner::Fail(const absl::Status& status) {
  recovery_.Begin(status, absl::Now());
  BlameSequencesInFlight(status);
  ForgetSteps();
}

// Steps fail together, so whoever is named by any step in flight may be the cause.
void SequenceRunner::BlameSequencesInFlight(const absl::Status& status) {
  std::vector<Sequence*> causes;
  for (const auto& sequence : table_.running())
    if (sequence->in_flight > 0 && ++sequence->failures >= kMaxFailures)
      causes.push_back(sequence.get());
  for (Sequence* sequence : causes)
    CloseRunning(*sequence, FinishReason::kNone,
                 absl::InternalError(absl::StrCat("its steps failed ", kMaxFailures,
                                                  " times in a row: ", status.message())));
}

// The steps in flight, and whatever the KV cache held, are worth nothing any more.
void SequenceRunner::ForgetSteps() {
  for (const auto& sequence : table_.running()) lost_tokens_ += sequence->computed;
  steps_.clear();
  sampling_steps_ = 0;
  table_.ForgetSteps();
}

bool SequenceRunner::TryRestart() {
  if (!recovery_.TryRestart(absl::Now())) return false;
  if (recovery_.healthy()) {
    next_step_ = 0;
    last_progress_ = absl::Now();
    observer_.OnRecovery({.taken = last_progress_ - recovery_.began(), .tokens = lost_tokens_});
    lost_tokens_ = 0;
  } else if (!recovery_.lost().ok()) {
    CloseAll(recovery_.lost());
  }
  return true;
}

void SequenceRunner::CloseAll(const absl::Status& status) {
  if (has_steps()) executor_.Abort(status);
  while (!table_.running().empty())
    CloseRunning(*table_.running().back(), FinishReason::kNone, status);
  while (!table_.waiting().empty()) Close(*table_.TakeWaiting(0), FinishReason::kNone, status);
  ForgetSteps();
}

}  // namespace penstock
