#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/penstock/v1/generation.pb.h"
#include "scheduler/request.h"
#include "server/served_model.h"
#include "server/text/text_stream.h"

namespace penstock {

// A request that has passed the door: nothing in it can fail further in.
struct GenerationTask {
  GenerateRequest sequence;  // of sample 0; the others differ in sample_index only
  int32_t samples = 1;
  bool token_ids_only = false;
  TextStreamOptions text;
};

// Checks every field against its range and the model, encodes a text prompt and fills in defaults.
// Pure and thread-safe; takes as long as encoding does, so it belongs on the text pool.
//
// max_tokens unset means what fits the context; set, prompt + max_tokens must fit. A missing seed
// becomes `drawn_seed`. Errors name the field: NotFound for an unknown model, otherwise
// InvalidArgument.
absl::StatusOr<GenerationTask> ParseGenerateRequest(const v1::GenerateRequest& request,
                                                    const ServedModel& model, uint64_t drawn_seed);

}  // namespace penstock
