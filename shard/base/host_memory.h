#pragma once

#include <cstdint>

namespace penstock {

// Bytes that this process may still take: the smaller of what the machine and the process's cgroup
// have left. Reads /proc and /sys.
int64_t AvailableHostBytes();

// Of this process; 0 when it cannot be told.
int64_t ResidentBytes();

}  // namespace penstock
