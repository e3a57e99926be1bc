#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace penstock {

enum class Encoding : uint8_t { kUnsupported, kF32, kF16, kBF16, kBlocks };

// How a checkpoint file stores the elements of a tensor: in blocks of `block_elements` elements and
// `block_bytes` bytes; plain numbers are blocks of one.
struct StoredType {
  absl::string_view name;  // as the format spells it: "BF16", "Q4_1"
  int32_t block_elements = 1;
  int32_t block_bytes = 0;  // 0: the format names a type whose size is not known here
  Encoding encoding = Encoding::kUnsupported;
  // kBlocks: writes blocks * block_elements floats.
  void (*dequantize)(const uint8_t* blocks, int64_t count, float* out) = nullptr;

  bool readable() const { return encoding != Encoding::kUnsupported; }
  // Of `elements` elements. InvalidArgument when they fill no whole number of blocks or the bytes
  // overflow.
  absl::StatusOr<int64_t> Bytes(int64_t elements) const;
};

// By the dtype names of safetensors. One that is not known is "?", of size 0.
const StoredType& SafetensorsType(absl::string_view dtype);

// By ggml's type numbers; as above.
const StoredType& GgufType(uint32_t type);

}  // namespace penstock
