#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "shard/backend/backend.h"

namespace penstock {

struct CpuOptions {
  int threads = 0;           // compute threads of this rank; 0: as many as the process may use
  std::string isa = "auto";  // auto, scalar, avx2, avx512, avx512bf16
  // auto and fp32: weights are widened exactly and products summed in f32, bit-identical on every
  // instruction set. bf16: activations are rounded to bf16 and multiplied with AVX512-BF16 (bf16
  // weights only).
  std::string compute = "auto";
};

// InvalidArgument names an unknown or unsupported instruction set and the ones this CPU has.
absl::StatusOr<std::unique_ptr<Backend>> MakeCpuBackend(const CpuOptions& options);

}  // namespace penstock
