#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace penstock {

struct TraceRow {
  absl::Duration arrival;  // since the start of the run
  int32_t prompt_tokens = 0;
  int32_t output_tokens = 0;
};

// A recorded load as CSV: arrival in seconds, prompt tokens, output tokens; in order of arrival.
// Blank lines and lines that begin with '#' are skipped, and so is a first line none of whose
// fields is a number (a heading). Errors name `path` and the line. A trace without a row is an
// error.
absl::StatusOr<std::vector<TraceRow>> ParseTrace(const std::string& path, absl::string_view text);
absl::StatusOr<std::vector<TraceRow>> ReadTrace(const std::string& path);

}  // namespace penstock
