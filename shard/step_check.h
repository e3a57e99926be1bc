#pragma once

#include "absl/status/status.h"
#include "shard/api/executor.h"

namespace penstock {

// InvalidArgument, naming the field, unless the step's arrays agree with one another and with the
// limits, so that a rank may index with them unchecked.
absl::Status CheckStep(const StepBatch& batch, const ExecutorInfo& info);

}  // namespace penstock
