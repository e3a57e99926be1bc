#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "shard/checkpoint/tensor_table.h"

namespace penstock {

// general.architecture; InvalidArgument when it is missing or no plain word. `source` is named.
absl::StatusOr<std::string> GgufArchitecture(const nlohmann::json& metadata,
                                             const std::string& source);

// Whether Hugging Face's names and config keys are known for it: llama, qwen2, qwen3.
bool IsKnownGgufArchitecture(const std::string& architecture);

// The config.json that the metadata amounts to. `tensors` by Hugging Face's names. Values are
// passed on as they are, whoever reads the config checks them; but what is missing is said here,
// because in a config.json it would silently be a default. For an unknown architecture only its
// name (architectures, model_type), to be refused by.
absl::StatusOr<nlohmann::json> MakeConfig(const nlohmann::json& metadata,
                                          const TensorTable& tensors, const std::string& source);

}  // namespace penstock
