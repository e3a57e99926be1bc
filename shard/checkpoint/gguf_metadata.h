#pragma once

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "shard/checkpoint/byte_cursor.h"

namespace penstock {

// Reads `count` key-value pairs of a GGUF header. Errors name the key.
absl::StatusOr<nlohmann::json> ReadGgufMetadata(ByteCursor& cursor, int64_t count);

}  // namespace penstock
