#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/checkpoint/checkpoint.h"

namespace penstock {

// Writes a checkpoint as a Hugging Face folder, config.json and model.safetensors in f16, and to
// the disk. The folder must exist.
absl::Status WriteCheckpoint(const Checkpoint& checkpoint, const std::string& folder);

// A file's bytes, and how long it takes to read them from front to back, one MiB at a time.
struct FileRead {
  int64_t bytes = 0;
  double seconds = 0;
};
absl::StatusOr<FileRead> ReadThrough(const std::string& path);

// Asks the system to forget what it keeps of a file in memory.
absl::Status DropCached(const std::string& path);

}  // namespace penstock
