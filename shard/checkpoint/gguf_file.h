#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "shard/checkpoint/file.h"
#include "shard/checkpoint/stored_tensor.h"

namespace penstock {

// What a GGUF file says of itself, in its own words: metadata by key, tensors by GGUF name with
// their shape outermost dimension first (the file has it the other way round).
struct GgufFile {
  nlohmann::json metadata;  // an object; strings may be any bytes
  std::vector<StoredTensor> tensors;
};

// Reads the header of a GGUF file, version 2 or 3 (format: ggml's docs/gguf.md), and checks all
// that it claims: counts, lengths, names that occur once, data inside the file that overlaps no
// other. Types without a known size pass, their tensors having 0 stored bytes. Memory is bounded by
// the file's size and by 16 million metadata values. Errors name the file and the key or tensor.
// The result borrows `file`.
absl::StatusOr<GgufFile> ReadGguf(const File& file);

}  // namespace penstock
