#include "server/encode_results.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "server/field_checks.h"
#include "shard/base/status_macros.h"

namespace penstock {

float Sigmoid(float logit) {
  return static_cast<float>(1 / (1 + std::exp(-static_cast<double>(logit))));
}

void MakeProbabilities(const EncoderSpec& spec, std::vector<float>* scores) {
  if (!spec.single_label || scores->size() == 1) {
    for (float& score : *scores) score = Sigmoid(score);
    return;
  }
  const double most = *std::max_element(scores->begin(), scores->end());
  double sum = 0;
  for (float score : *scores) sum += std::exp(score - most);
  for (float& score : *scores) score = static_cast<float>(std::exp(score - most) / sum);
}

void Normalize(std::vector<float>* values) {
  double squares = 0;
  for (float value : *values) squares += static_cast<double>(value) * value;
  if (squares == 0) return;
  const double scale = 1 / std::sqrt(squares);
  for (float& value : *values) value = static_cast<float>(value * scale);
}

absl::Status ApplyScheduling(const v1::Scheduling& from, const ServedModel& model,
                             EncodeTask* task) {
  int32_t priority = 0;
  RETURN_IF_ERROR(ParseQueueing(from, model.limits, &priority, &task->queue_timeout));
  for (EncodeRequest& request : task->requests) request.priority = priority;
  return absl::OkStatus();
}

absl::Status CheckKind(const ServedModel& model, absl::string_view rpc, absl::string_view kind) {
  if (model.kind() == kind) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(rpc, " needs a model of the kind \"", kind,
                                                    "\"; \"", model.name, "\" is of the kind \"",
                                                    model.kind(), "\""));
}

}  // namespace penstock
