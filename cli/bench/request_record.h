#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace penstock {

// A message that brought tokens.
struct TokenArrival {
  absl::Duration at;
  int32_t tokens = 0;
};

// What became of one request, by the client's clock. Times are since the start of the run.
struct RequestRecord {
  int64_t index = 0;
  absl::Duration
      intended;         // from here latency counts: the scheduled arrival, or the call's beginning
  absl::Duration sent;  // when the call was begun
  absl::Duration end;   // when its status was known
  std::vector<TokenArrival> arrivals;
  absl::StatusCode code = absl::StatusCode::kUnknown;
  std::string message;   // of the status
  bool cut_off = false;  // ended by the user's Ctrl-C: neither a success nor a failure
  int32_t inputs = 1;
  int64_t prompt_tokens = 0;            // as the server counted them, where it tells
  int64_t cached_prompt_tokens = 0;     // of them, found in the server's prefix cache
  std::optional<absl::Duration> queue;  // as the server told

  bool ok() const { return code == absl::StatusCode::kOk; }
  int64_t output_tokens() const;
  absl::Duration e2e() const { return end - intended; }
  absl::Duration lateness() const { return sent - intended; }
  // To the first message with tokens; nothing when there was none.
  std::optional<absl::Duration> ttft() const;
  // From the first message with tokens to the last, divided by the tokens behind the first
  // message's; nothing when there are none.
  std::optional<absl::Duration> tpot() const;
  // The longest time between neighbouring messages with tokens; nothing with fewer than two.
  std::optional<absl::Duration> longest_gap() const;
};

}  // namespace penstock
