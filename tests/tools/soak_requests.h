#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "proto/penstock/v1/generation.pb.h"

namespace penstock {

// Well-formed requests of different shapes (text and ids, greedy and seeded, penalties, stops),
// each with an answer that must not depend on anything but itself.
std::vector<v1::GenerateRequest> WellFormedRequests();

// A request that must be refused at the door.
v1::GenerateRequest MalformedRequest(std::mt19937& random);

// Bytes that are no request; most of them cannot be parsed at all.
std::string RandomBytes(std::mt19937& random);

}  // namespace penstock
