#pragma once

#include <memory>

#include "shard/backend/backend.h"
#include "shard/profile/operation_log.h"

namespace penstock {

// The backend `real`, with an entry in `log` for each operation: the same results, two looks at the
// clock more. Operations are timed as they are called, so `real` must have done its work when a
// call returns (the CPU's has). `log` is borrowed; used by the rank's thread, as every backend.
std::unique_ptr<Backend> MakeProfiledBackend(std::unique_ptr<Backend> real, OperationLog* log);

}  // namespace penstock
