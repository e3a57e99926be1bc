#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/call_bounds.h"

namespace penstock {

// How far a call has come. A call of several samples is where the last of them is.
enum class CallPhase {
  kQueue,    // some sample has not been started
  kPrefill,  // some sample has no token yet
  kDecode,
  kEncode,  // of a one-shot call: every input has been started
  kWrite,   // nothing to be done until the client takes what there is
};

// Every bound that a call may pass, and which of them it was. Pure; of one thread at a time.
class CallDeadlines {
 public:
  // `client_deadline` is infinitely far when the client set none. The smaller one counts.
  CallDeadlines(absl::Time arrival, absl::Time client_deadline, const CallBounds& bounds);

  // What the request asked for; zero: no bound. Absent: the server's default.
  void SetQueueTimeout(std::optional<absl::Duration> wanted);

  absl::Time deadline() const { return deadline_; }              // of the last token and its write
  absl::Time start_deadline() const { return start_deadline_; }  // of leaving the queue
  void OnWriteBegin(absl::Time now) { write_deadline_ = now + bounds_.client_stall; }

  // DeadlineExceeded, naming the bound and the phase, once one has passed. `writing`: a write is
  // outstanding.
  absl::Status Check(absl::Time now, CallPhase phase, bool writing) const;
  // When Check would fail if nothing changed.
  absl::Time Next(CallPhase phase, bool writing) const;

 private:
  const CallBounds bounds_;
  const absl::Time arrival_;
  const bool client_sets_deadline_;  // and not the request timeout
  const absl::Time deadline_;
  absl::Time start_deadline_ = absl::InfiniteFuture();
  absl::Time write_deadline_ = absl::InfiniteFuture();
};

}  // namespace penstock
