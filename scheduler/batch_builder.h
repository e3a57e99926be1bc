#pragma once

#include <cstdint>

#include "scheduler/step_planner.h"
#include "shard/api/step.h"

namespace penstock {

// Flattens a plan into what the ranks run, plan_hash included. Reads the sequences as they are
// before the step (Sequence::computed not yet advanced) and announces the slots that are new.
StepBatch BuildBatch(const StepPlan& plan, int32_t kv_block_size, int64_t step, uint64_t epoch);

}  // namespace penstock
