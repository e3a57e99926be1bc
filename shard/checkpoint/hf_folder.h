#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "shard/checkpoint/checkpoint.h"

namespace penstock {

// A Hugging Face folder: config.json and model.safetensors, or model.safetensors.index.json and the
// files it names. The index decides which tensor comes from which file; a file may hold more.
// The model.safetensors is used where both are there, as the reference implementation does.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenHuggingFaceFolder(const std::string& folder);

// Whether the folder holds one of the two.
bool HasSafetensors(const std::string& folder);

}  // namespace penstock
