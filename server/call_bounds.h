#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "scheduler/encode_request.h"

namespace penstock {

// How long, and for how much, a call may make the server wait. What passes one of the times ends
// with DEADLINE_EXCEEDED, as if the client's own deadline had passed.
struct CallBounds {
  absl::Duration request_timeout{};    // of the whole call; zero: only the client's deadline counts
  absl::Duration queue_timeout{};      // until every sample has left the queue, unless the request
                                       // says otherwise; zero: none
  bool queue_timeout_override = true;  // whether a request may ask for a longer one
  TimeoutAction on_queue_timeout = TimeoutAction::kReject;  // of one-shot requests
  absl::Duration client_stall = absl::Seconds(60);          // for the client to take one message
  int32_t max_unread_tokens = 1024;  // gathered of a sample while the client takes a message
};

}  // namespace penstock
