#include <immintrin.h>

#include "shard/backend/cpu/isa.h"

namespace penstock {
namespace {

// Best first: what the CPU has is a tail of this list.
constexpr Isa kIsas[] = {
    {"avx512bf16", &kAvx512Kernels, &kAvx512Bf16DotKernels},
    {"avx512", &kAvx512Kernels, nullptr},
    {"avx2", &kAvx2Kernels, nullptr},
    {"scalar", &kScalarKernels, nullptr},
};

size_t FirstAvailable() {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq");
  if (avx512) return __builtin_cpu_supports("avx512bf16") ? 0 : 1;
  return avx2 ? 2 : 3;
}

}  // namespace

std::span<const Isa> AvailableIsas() { return std::span(kIsas).subspan(FirstAvailable()); }

void RelaxProcessor() { _mm_pause(); }

}  // namespace penstock
