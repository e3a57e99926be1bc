#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "shard/checkpoint/checkpoint.h"

namespace penstock {

// A GGUF file, or any file of a split one ("name-00001-of-00003.gguf"), as a Hugging Face model. An
// architecture that is not known opens too, with its own tensor names and a config that names it.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenGguf(const std::string& path);

// The first file of the split that `path` belongs to; `path` itself when it belongs to none.
std::string FirstOfSplit(const std::string& path);

}  // namespace penstock
