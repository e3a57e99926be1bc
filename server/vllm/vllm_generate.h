#pragma once

#include <memory>

#include "server/encode_method.h"
#include "server/generate_method.h"
#include "server/vllm/abort_registry.h"

namespace penstock::vllm {

// Generate: token ids out, chunk by chunk or all at once. `registry` is borrowed beyond the call.
std::unique_ptr<GenerateMethod> MakeGenerate(AbortRegistry& registry);
// Embed: one input of token ids; of a classifier the logits.
std::unique_ptr<EncodeMethod> MakeEmbed();

}  // namespace penstock::vllm
