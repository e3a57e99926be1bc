#include "shard/base/dtype.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace penstock {

absl::StatusOr<DType> ParseDType(absl::string_view name) {
  if (name == "f32" || name == "float32" || name == "fp32") return DType::kF32;
  if (name == "f16" || name == "float16" || name == "fp16") return DType::kF16;
  if (name == "bf16" || name == "bfloat16") return DType::kBF16;
  return absl::InvalidArgumentError(
      absl::StrCat("unknown number format '", name, "'; use f32, f16 or bf16"));
}

}  // namespace penstock
