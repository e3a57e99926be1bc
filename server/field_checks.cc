#include "server/field_checks.h"

#include "absl/strings/match.h"
#include "server/text/unicode.h"

namespace penstock {

// Written so that NaN fails it.
absl::Status CheckRange(absl::string_view field, double value, double low, double high) {
  if (!(value >= low && value <= high))
    return Refuse(field, "is ", value, "; it must be in [", low, ", ", high, "]");
  return absl::OkStatus();
}

absl::Status CheckToken(absl::string_view field, int32_t id, int32_t vocab) {
  if (!(id >= 0 && id < vocab))
    return Refuse(field, "has token id ", id, "; ids must be in [0, ", vocab, ")");
  return absl::OkStatus();
}

absl::Status RenameField(
    const absl::Status& status,
    std::initializer_list<std::pair<absl::string_view, absl::string_view>> names) {
  for (const auto& [ours, theirs] : names)
    if (absl::StartsWith(status.message(), ours))
      return {status.code(), absl::StrCat(theirs, status.message().substr(ours.size()))};
  return status;
}

absl::Status CheckModelName(const std::string& name, const ServedModel& model) {
  if (name.empty() || name == model.name) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("model \"", name, "\" is not served here; \"", model.name, "\" is"));
}

absl::Status CheckUtf8(absl::string_view field, absl::string_view text) {
  return IsValidUtf8(text) ? absl::OkStatus() : Refuse(field, "is not UTF-8");
}

absl::Status CheckTextSize(absl::string_view field, size_t bytes, const ServedModel& model) {
  const int64_t most = model.most_text_bytes();
  if (static_cast<int64_t>(bytes) <= most) return absl::OkStatus();
  return Refuse(field, "has ", bytes, " bytes; at most ", most, " can be encoded for a context of ",
                model.info.max_context, " tokens");
}

absl::Status ParseQueueing(const v1::Scheduling& from, const RequestLimits& limits,
                           int32_t* priority, std::optional<absl::Duration>* queue_timeout) {
  RETURN_IF_ERROR(CheckRange("scheduling.priority", from.priority(), -100, 100));
  *priority = from.priority();
  RETURN_IF_ERROR(CheckRange("scheduling.queue_timeout_seconds", from.queue_timeout_seconds(), 0,
                             limits.max_queue_timeout_seconds));
  if (from.has_queue_timeout_seconds())
    *queue_timeout = absl::Seconds(from.queue_timeout_seconds());
  return absl::OkStatus();
}

}  // namespace penstock
