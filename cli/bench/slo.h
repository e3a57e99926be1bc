#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cli/bench/request_record.h"

namespace penstock {

// Service level objectives of one request, "ttft=200ms,itl=50ms,tpot=30ms,e2e=2s". A request meets
// them when it succeeded and each given time was not exceeded; `itl` bounds each of its gaps. A
// time that a request does not have (gaps, when all tokens came in one message) is met, except
// `ttft`.
struct Slo {
  std::optional<absl::Duration> ttft, itl, tpot, e2e;

  bool any() const { return ttft || itl || tpot || e2e; }
  bool Met(const RequestRecord& record) const;
};

// For cli/setting_table.h.
absl::Status ParseSetting(absl::string_view text, Slo* value);
std::string FormatSetting(const Slo& value);

}  // namespace penstock
