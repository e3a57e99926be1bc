#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"

namespace penstock {

using HostMemory = std::unique_ptr<void, std::function<void(void*)>>;

// Zeroed memory on a 64 byte boundary, backed by pages already (large blocks by huge ones if the
// system has them), so that using it later cannot fail. ResourceExhausted, with the numbers, for
// more than is available; InvalidArgument for a negative size.
absl::StatusOr<HostMemory> AllocateZeroed(int64_t bytes);

// rows * cols * element_size, or -1 when that is negative or beyond any memory.
int64_t ByteCount(int64_t rows, int64_t cols, int64_t element_size);

}  // namespace penstock
