// Linked instead of shard/backend/cuda/ in a build without CUDA.
#include "absl/status/status.h"
#include "shard/backend/devices.h"

namespace penstock {

absl::StatusOr<std::vector<DeviceInfo>> ListCudaDevices() {
  return absl::UnimplementedError("this build has no CUDA (configure with PENSTOCK_CUDA=ON)");
}

}  // namespace penstock
