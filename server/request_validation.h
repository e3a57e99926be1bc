#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/penstock/v1/generation.pb.h"
#include "scheduler/request.h"
#include "server/served_model.h"
#include "server/text/text_stream.h"

namespace penstock {

// A request that has passed the door: nothing in it can fail further in.
struct GenerationTask {
  GenerateRequest sequence;  // of sample 0; the others differ in sample_index only
  int32_t samples = 1;
  std::optional<absl::Duration> queue_timeout;  // as the request sets it; zero: no bound
  bool token_ids_only = false;
  TextStreamOptions text;
};

// Checks every field against its range and the model, encodes a text prompt and fills in defaults.
// Pure and thread-safe; takes as long as encoding does, so it belongs on the text pool.
//
// max_tokens unset means what fits the context; set, prompt + max_tokens must fit. `drawn` is a
// random number: the seed where the request has none, and the source of the cache salt of a request
// that shares its prompt only among its own samples. The deadlines are left to the call. Errors
// name the field: NotFound for an unknown model, otherwise InvalidArgument.
absl::StatusOr<GenerationTask> ParseGenerateRequest(const v1::GenerateRequest& request,
                                                    const ServedModel& model, uint64_t drawn);

}  // namespace penstock
