#pragma once

#include "absl/status/status.h"
#include "scheduler/request.h"
#include "shard/api/executor.h"

namespace penstock {

// Refuses with InvalidArgument, naming the field and the numbers, what an executor could never run:
// an empty prompt, ids outside the vocabulary (the server has checked them; a rank must never see
// one), lengths beyond the context or the whole KV cache, limits that contradict each other.
absl::Status CheckRequest(const GenerateRequest& request, const ExecutorInfo& info);

}  // namespace penstock
