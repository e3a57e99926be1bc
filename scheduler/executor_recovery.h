#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "scheduler/restart_backoff.h"
#include "shard/api/executor.h"

namespace penstock {

// Brings a failed executor back. Past the time allowed for that it is lost, which is no reason not
// to go on trying. Belongs to the thread that steps.
class ExecutorRecovery {
 public:
  // Borrows `executor`. `allowed`: for restarting it, from the failure on.
  ExecutorRecovery(Executor& executor, absl::Duration allowed)
      : executor_(executor), allowed_(allowed) {}

  // A step has failed with `cause` at `now`.
  void Begin(const absl::Status& cause, absl::Time now);
  // An error that has not begun a recovery yet: of a rank that was lost while no step was
  // outstanding, for instance.
  absl::Status unnoticed() const { return healthy() ? executor_.status() : absl::OkStatus(); }
  // Tries a restart that is due. False: there is none.
  bool TryRestart(absl::Time now);
  absl::Time began() const { return began_; }  // the last time

  bool active() const { return backoff_.has_value(); }
  bool healthy() const { return !active() && lost_.ok(); }
  // When the next restart is due; infinitely far when there is none to do.
  absl::Time next_attempt() const {
    return active() ? backoff_->next_attempt() : absl::InfiniteFuture();
  }
  const absl::Status& lost() const { return lost_; }  // Unavailable from when the time was up

 private:
  Executor& executor_;
  const absl::Duration allowed_;
  std::optional<RestartBackoff> backoff_;
  absl::Status lost_;
  absl::Time began_ = absl::InfinitePast();
};

}  // namespace penstock
