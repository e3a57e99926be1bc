#pragma once

#include <memory>

#include "server/encode_method.h"
#include "server/kserve/infer_statistics.h"

namespace penstock::kserve {

// ModelInfer of a one-shot model; `in_stream`: within a message of ModelStreamInfer. `statistics`
// is borrowed beyond the call.
std::unique_ptr<EncodeMethod> MakeInferEncode(InferStatistics& statistics, bool in_stream);

}  // namespace penstock::kserve
