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
  // How long idle compute threads look out for the next operation before they sleep. Taken as 0
  // when there are more threads than processors, where a spinning thread would hold up the others.
  int spin_us = 30;
};

// A backend whose memory is the host's. Operations are done when a call returns; Sync() only
// reports. InvalidArgument names an unknown or unsupported instruction set (and the ones this CPU
// has) or compute mode.
absl::StatusOr<std::unique_ptr<Backend>> MakeCpuBackend(const CpuOptions& options);

}  // namespace penstock
