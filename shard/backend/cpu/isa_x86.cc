#include <cpuid.h>

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

bool HasF16c() {  // Clang 14 has no name for it
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

size_t FirstAvailable() {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16c();
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq");
  if (avx512) return __builtin_cpu_supports("avx512bf16") ? 0 : 1;
  return avx2 ? 2 : 3;
}

}  // namespace

std::span<const Isa> AvailableIsas() { return std::span(kIsas).subspan(FirstAvailable()); }

}  // namespace penstock
