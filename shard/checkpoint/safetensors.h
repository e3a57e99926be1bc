#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shard/checkpoint/file.h"
#include "shard/checkpoint/stored_tensor.h"

namespace penstock {

// One entry of a safetensors header, as it is written there.
struct SafetensorsEntry {
  std::string name, dtype;
  std::vector<int64_t> shape;
  Range bytes;  // of the data section
};

// Reads the header of a safetensors file (format: github.com/huggingface/safetensors) and checks
// all that it claims: its length, keys that occur once, sizes that follow from shape and dtype,
// data that fills the file without overlap or hole. A dtype that the format does not have yet is
// listed, its size taken as it is. Errors name the file and the tensor. The result borrows `file`.
absl::StatusOr<std::vector<StoredTensor>> ReadSafetensors(const File& file);

// The header's text alone; errors name neither.
absl::StatusOr<std::vector<SafetensorsEntry>> ParseSafetensorsHeader(absl::string_view text);

}  // namespace penstock
