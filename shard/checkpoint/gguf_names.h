#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace penstock {

// How Hugging Face's llama, qwen2 and qwen3 models call a tensor that GGUF calls `name`; `name`
// itself when they have none like it.
std::string HuggingFaceName(absl::string_view name);

}  // namespace penstock
