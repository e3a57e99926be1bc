#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "proto/penstock/v1/shard.pb.h"

namespace penstock {

inline constexpr uint32_t kShardProtocol = 1;

// Who this side is. `build`: leader and worker must have the same.
v1::Hello OwnHello(const std::string& build);

// FailedPrecondition, saying what differs, unless the other side can be worked with.
absl::Status CheckHello(const v1::Hello& other, const std::string& build);

}  // namespace penstock
