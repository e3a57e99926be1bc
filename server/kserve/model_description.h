#pragma once

#include "proto/kserve/inference.pb.h"
#include "server/served_model.h"

namespace penstock::kserve {

// What clients are told of a model before they send it something. Its inputs and outputs; all but
// the prompt's are optional.
inference::ModelMetadataResponse DescribeModel(const ServedModel& model);
inference::ModelConfig ConfigOf(const ServedModel& model);

}  // namespace penstock::kserve
