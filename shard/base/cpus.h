#pragma once

namespace penstock {

// Processors that this process may keep busy: those of its affinity mask, but no more than its
// cgroup's CPU quota (rounded up) pays for. At least 1. Reads /proc and /sys; call it once.
int AvailableCpus();

}  // namespace penstock
