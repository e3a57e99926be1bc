#pragma once

#include "absl/status/statusor.h"
#include "shard/comm/communicator.h"

namespace penstock {

// How a group's ranks reach one another.
struct LinkSpeed {
  double latency_us = 0;        // of a small matrix from everyone to everyone
  double bytes_per_second = 0;  // that a rank receives of large ones
};

// Sends patterns from every rank of a group to every other and compares them bit by bit. All ranks
// call it, each on its own thread, before anything else; `most` elements at a time. DataLoss,
// naming both ranks and the place, when something else arrives than was sent; the group's status
// when it fails.
absl::StatusOr<LinkSpeed> TestLinks(Communicator& group, int64_t most);

}  // namespace penstock
