#include "scheduler/executor_recovery.h"

#include "absl/strings/str_cat.h"

namespace penstock {

void ExecutorRecovery::Begin(const absl::Status& cause, absl::Time now) {
  executor_.Abort(cause);
  backoff_.emplace(cause, now, allowed_);
  began_ = now;
}

bool ExecutorRecovery::TryRestart(absl::Time now) {
  if (!active() || now < backoff_->next_attempt()) return false;
  const absl::Status status = executor_.Restart();
  if (status.ok()) {
    backoff_.reset();
    lost_ = absl::OkStatus();
  } else if (!backoff_->OnFailedAttempt(now)) {
    lost_ = absl::UnavailableError(
        absl::StrCat("the executor failed: ", backoff_->cause().message(),
                     "; and could not be restarted within ", absl::FormatDuration(allowed_), ": ",
                     status.message()));
  }
  return true;
}

}  // namespace penstock
