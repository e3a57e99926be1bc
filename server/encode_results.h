#pragma once

#include <vector>

#include "absl/status/status.h"
#include "proto/penstock/v1/generation.pb.h"
#include "server/encode_method.h"
#include "server/served_model.h"

namespace penstock {

// What the one-shot RPCs of all protocols do with inputs and results.

// Logits to probabilities, in place: by softmax or, for models of several labels and of a single
// one (of which softmax would always say 1), by sigmoid.
void MakeProbabilities(const EncoderSpec& spec, std::vector<float>* scores);
float Sigmoid(float logit);
// To length 1, in place; a vector of zeros stays.
void Normalize(std::vector<float>* values);

// To all requests of the task. Errors as ParseQueueing().
absl::Status ApplyScheduling(const v1::Scheduling& from, const ServedModel& model,
                             EncodeTask* task);
// FailedPrecondition, naming both, unless the model is of that kind.
absl::Status CheckKind(const ServedModel& model, absl::string_view rpc, absl::string_view kind);

}  // namespace penstock
