#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace penstock {

struct DeviceInfo {
  std::string name;          // "NVIDIA H200"
  std::string architecture;  // "sm_90"
  int64_t total_bytes = 0;
  int64_t free_bytes = 0;
};

// The CUDA devices that this process may use, in CUDA's order; empty when there are none.
// Unimplemented in a build without CUDA; Unavailable, with the driver's reason, when CUDA cannot
// start.
absl::StatusOr<std::vector<DeviceInfo>> ListCudaDevices();

}  // namespace penstock
