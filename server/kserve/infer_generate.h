#pragma once

#include <memory>

#include "server/generate_method.h"
#include "server/kserve/infer_statistics.h"

namespace penstock::kserve {

// ModelInfer of a model that generates: one response with the whole text. `statistics` is borrowed
// beyond the call.
std::unique_ptr<GenerateMethod> MakeInferGenerate(InferStatistics& statistics);
// ModelStreamInfer: responses within the stream's messages, deltas if the request asks for them.
std::unique_ptr<GenerateMethod> MakeStreamGenerate(InferStatistics& statistics);

}  // namespace penstock::kserve
