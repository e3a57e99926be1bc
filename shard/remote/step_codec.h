#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/penstock/v1/shard.pb.h"
#include "shard/api/executor.h"
#include "shard/api/step.h"

namespace penstock {

// Steps and their results as messages, exactly: what is decoded equals what was encoded, floats bit
// by bit. Thread-safe, without state.

v1::Step EncodeStep(const StepBatch& batch);

// InvalidArgument for a message that is no step at all. Whether its arrays agree with one another
// is CheckStep()'s to say.
absl::StatusOr<StepBatch> DecodeStep(const v1::Step& message);

// One rank's share of a step, which has one stage's timing.
v1::StepDone EncodeDone(int rank, uint64_t epoch, const StepResult& share, const StageStats& stats);

// What a rank says of itself beside its share is left to the caller. InvalidArgument for arrays
// that do not belong together.
absl::StatusOr<StepResult> DecodeDone(const v1::StepDone& message);

v1::Outcome EncodeOutcome(const absl::Status& status);
absl::Status DecodeOutcome(const v1::Outcome& message);  // Unknown for a code that there is not

}  // namespace penstock
