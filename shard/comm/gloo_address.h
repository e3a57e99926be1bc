#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace penstock {

// Where each other rank finds rank `rank` of a group, as bytes: `places` are Gloo's own addresses,
// by rank, at most 255 bytes each. `identity`: what ranks must agree about.
std::string MakeGlooAddress(uint64_t identity, int rank,
                            const std::vector<std::vector<char>>& places);

// What rank `from` says of where rank `to` of `size` finds it. InvalidArgument for bytes that are
// no address, FailedPrecondition for one of another rank, size or identity.
absl::StatusOr<std::vector<char>> ParseGlooAddress(const std::string& address, uint64_t identity,
                                                   int from, int to, int size);

}  // namespace penstock
