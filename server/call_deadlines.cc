#include "server/call_deadlines.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace penstock {
namespace {

absl::Time After(absl::Time arrival, absl::Duration timeout) {
  return timeout > absl::ZeroDuration() ? arrival + timeout : absl::InfiniteFuture();
}

absl::string_view Where(CallPhase phase) {
  switch (phase) {
    case CallPhase::kQueue: return "in the queue";
    case CallPhase::kPrefill: return "in prefill";
    case CallPhase::kDecode: return "in decode";
    case CallPhase::kEncode: return "in the model";
    case CallPhase::kWrite: break;
  }
  return "in the write to the client";
}

template <typename... Parts>
absl::Status Exceeded(const Parts&... parts) {
  return absl::DeadlineExceededError(absl::StrCat(parts...));
}

}  // namespace

CallDeadlines::CallDeadlines(absl::Time arrival, absl::Time client_deadline,
                             const CallBounds& bounds)
    : bounds_(bounds),
      arrival_(arrival),
      client_sets_deadline_(client_deadline <= After(arrival, bounds.request_timeout)),
      deadline_(std::min(client_deadline, After(arrival, bounds.request_timeout))) {
  SetQueueTimeout(std::nullopt);
}

void CallDeadlines::SetQueueTimeout(std::optional<absl::Duration> wanted) {
  start_deadline_ = After(arrival_, wanted.value_or(bounds_.queue_timeout));
  if (!bounds_.queue_timeout_override)
    start_deadline_ = std::min(start_deadline_, After(arrival_, bounds_.queue_timeout));
}

absl::Status CallDeadlines::Check(absl::Time now, CallPhase phase, bool writing) const {
  if (now >= deadline_)
    return client_sets_deadline_
               ? Exceeded("the client's deadline passed ", Where(phase))
               : Exceeded("the server's request timeout of ",
                          absl::FormatDuration(bounds_.request_timeout), " passed ", Where(phase));
  if (phase == CallPhase::kQueue && now >= start_deadline_)
    return Exceeded("the queue timeout of ", absl::FormatDuration(start_deadline_ - arrival_),
                    " passed ", Where(phase));
  if (writing && now >= write_deadline_)
    return Exceeded("the client stall timeout of ", absl::FormatDuration(bounds_.client_stall),
                    " passed ", Where(CallPhase::kWrite), ": it took nothing");
  return absl::OkStatus();
}

absl::Time CallDeadlines::Next(CallPhase phase, bool writing) const {
  absl::Time next = deadline_;
  if (phase == CallPhase::kQueue) next = std::min(next, start_deadline_);
  if (writing) next = std::min(next, write_deadline_);
  return next;
}

}  // namespace penstock
