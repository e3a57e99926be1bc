#pragma once

#include <cstdint>
#include <vector>

#include "absl/time/time.h"

namespace penstock {

// What becomes of a request that has waited in the queue for as long as it may.
enum class TimeoutAction : uint8_t {
  kReject,  // it ends with DeadlineExceeded
  kDelay,   // once, it is moved behind everything that waits
};

// One input of a one-shot model: tokens in, one vector out; text stays in server/. A call with
// several inputs submits several of these.
struct EncodeRequest {
  std::vector<int32_t> tokens;  // not empty
  std::vector<int32_t> types;   // segment of each token; empty: all 0
  absl::Time arrival;           // unset: when it is submitted

  // The smaller goes first. A request that waits ages: BatcherOptions::ageing makes up for one
  // level, so nobody starves.
  int32_t priority = 0;
  absl::Time deadline = absl::InfiniteFuture();        // of the result
  absl::Time start_deadline = absl::InfiniteFuture();  // of leaving the queue for the first time
  TimeoutAction on_timeout = TimeoutAction::kReject;   // past its start_deadline
};

}  // namespace penstock
