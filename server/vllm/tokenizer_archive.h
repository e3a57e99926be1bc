#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace penstock::vllm {

// Contents by name.
using Files = std::map<std::string, std::string>;

// What a gateway reads a model's tokenizer, chat template and defaults from: of a checkpoint's
// folder the files as they are, of a GGUF file what says the same (tokenizer.json,
// tokenizer_config.json with the chat template, config.json). Errors name the file.
absl::StatusOr<Files> ReadTokenizerFiles(const std::string& checkpoint);

// The tokenizer_config.json of a GGUF file's metadata.
nlohmann::json TokenizerConfigFromGguf(const nlohmann::json& metadata);

// A ZIP archive, the same bytes for the same files.
absl::StatusOr<std::string> MakeZip(const Files& files);

// In hexadecimal.
std::string Sha256(const std::string& bytes);

}  // namespace penstock::vllm
