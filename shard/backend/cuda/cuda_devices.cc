#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"
#include "shard/backend/devices.h"

namespace penstock {
namespace {

absl::Status Unavailable(const char* what, cudaError_t error) {
  return absl::UnavailableError(absl::StrCat("CUDA ", what, ": ", cudaGetErrorString(error)));
}

absl::StatusOr<DeviceInfo> Describe(int index) {
  cudaDeviceProp properties;
  if (cudaError_t error = cudaGetDeviceProperties(&properties, index); error != cudaSuccess)
    return Unavailable("device properties", error);
  size_t free_bytes = 0, total_bytes = 0;
  if (cudaError_t error = cudaSetDevice(index); error != cudaSuccess)
    return Unavailable("device selection", error);
  if (cudaError_t error = cudaMemGetInfo(&free_bytes, &total_bytes); error != cudaSuccess)
    return Unavailable("memory query", error);
  return DeviceInfo{.name = properties.name,
                    .architecture = absl::StrCat("sm_", properties.major, properties.minor),
                    .total_bytes = static_cast<int64_t>(total_bytes),
                    .free_bytes = static_cast<int64_t>(free_bytes)};
}

}  // namespace

absl::StatusOr<std::vector<DeviceInfo>> ListCudaDevices() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorNoDevice) return std::vector<DeviceInfo>{};
  if (error != cudaSuccess) return Unavailable("driver", error);
  std::vector<DeviceInfo> devices;
  for (int i = 0; i < count; ++i) {
    absl::StatusOr<DeviceInfo> device = Describe(i);
    if (!device.ok()) return device.status();
    devices.push_back(*std::move(device));
  }
  return devices;
}

}  // namespace penstock
