#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/penstock/v1/generation.pb.h"
#include "server/served_model.h"
#include "shard/base/status_macros.h"

namespace penstock {

// What the requests of all services are checked with. Errors name the field: InvalidArgument where
// nothing else is said.

template <typename... Parts>
absl::Status Refuse(absl::string_view field, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(field, " ", parts...));
}

absl::Status CheckRange(absl::string_view field, double value, double low, double high);
absl::Status CheckToken(absl::string_view field, int32_t id, int32_t vocab);

template <typename Ids>
absl::Status CheckTokens(absl::string_view field, const Ids& ids, int32_t vocab) {
  for (int32_t id : ids) RETURN_IF_ERROR(CheckToken(field, id, vocab));
  return absl::OkStatus();
}

// Appends ids of a wider type than the model's own, whatever its vocabulary is.
template <typename Ids>
absl::Status AppendTokens(absl::string_view field, const Ids& ids,
                          google::protobuf::RepeatedField<int32_t>* to) {
  for (const int64_t id : ids) {
    if (id < 0 || id > INT32_MAX) return Refuse(field, "has ", id, ", which is no token id");
    to->Add(static_cast<int32_t>(id));
  }
  return absl::OkStatus();
}

// `status` with the beginning of its message, a field of penstock.v1, as another protocol spells
// it: the second of the first pair whose first it begins with.
absl::Status RenameField(
    const absl::Status& status,
    std::initializer_list<std::pair<absl::string_view, absl::string_view>> names);

// NotFound unless `name` is empty or the model's.
absl::Status CheckModelName(const std::string& name, const ServedModel& model);

absl::Status CheckUtf8(absl::string_view field, absl::string_view text);

// `text` may be encoded: it is not so long that it could never fit the context.
absl::Status CheckTextSize(absl::string_view field, size_t bytes, const ServedModel& model);

// The part of Scheduling that every request has. A queue timeout of zero: no bound; absent: the
// server's.
absl::Status ParseQueueing(const v1::Scheduling& from, const RequestLimits& limits,
                           int32_t* priority, std::optional<absl::Duration>* queue_timeout);

}  // namespace penstock
