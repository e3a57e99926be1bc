#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace penstock {

// How a number is stored. What a checkpoint may store beyond this (quantized blocks) is turned into
// one of these while loading.
enum class DType : uint8_t { kF32, kF16, kBF16, kI32 };

constexpr size_t SizeOf(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 ? 2 : 4;
}

constexpr const char* Name(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "f32";
    case DType::kF16: return "f16";
    case DType::kBF16: return "bf16";
    case DType::kI32: return "i32";
  }
  return "?";
}

// Accepts f32/float32/fp32, f16/float16/fp16, bf16/bfloat16. InvalidArgument otherwise.
absl::StatusOr<DType> ParseDType(absl::string_view name);

}  // namespace penstock
