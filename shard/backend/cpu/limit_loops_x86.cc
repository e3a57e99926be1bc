#include <immintrin.h>

#include "shard/backend/cpu/isa.h"
#include "shard/backend/cpu/limit_loops.h"

// Twelve chains hide the latency of two multiply-adds a cycle. Functions with instructions of their
// own are marked so, and nothing in this file has a name that the linker could share.

namespace penstock {
namespace {

constexpr int kChains = 12;

// The instruction set that products are computed with, too.
const Isa& Best() { return AvailableIsas().front(); }

// Makes the compiler believe that somebody reads it.
template <typename Vector>
__attribute__((always_inline)) inline void Keep(const Vector& value) {
  asm volatile("" : : "m"(value));
}

__attribute__((target("avx512f"))) void Fp32Avx512(int64_t rounds) {
  __m512 sum[kChains], factor = _mm512_set1_ps(0.999f);
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) sum[i] = _mm512_set1_ps(static_cast<float>(i));
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sum[i] = _mm512_fmadd_ps(sum[i], factor, factor);
  }
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) Keep(sum[i]);
}

__attribute__((target("avx2,fma"))) void Fp32Avx2(int64_t rounds) {
  __m256 sum[kChains], factor = _mm256_set1_ps(0.999f);
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) sum[i] = _mm256_set1_ps(static_cast<float>(i));
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sum[i] = _mm256_fmadd_ps(sum[i], factor, factor);
  }
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) Keep(sum[i]);
}

__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"))) void Bf16Avx512(int64_t rounds) {
  __m512 sum[kChains];
  const __m512bh factor = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3f00));
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) sum[i] = _mm512_set1_ps(static_cast<float>(i));
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sum[i] = _mm512_dpbf16_ps(sum[i], factor, factor);
  }
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) Keep(sum[i]);
}

__attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni"))) void Int8Avx512(int64_t rounds) {
  __m512i sum[kChains];
  const __m512i factor = _mm512_set1_epi8(3);
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) sum[i] = _mm512_set1_epi32(i);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sum[i] = _mm512_dpbusd_epi32(sum[i], factor, factor);
  }
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) Keep(sum[i]);
}

// Of `lanes` numbers each, `depth` products added to each of them.
double Operations(int64_t rounds, int lanes, int depth) {
  return 2.0 * static_cast<double>(rounds) * kChains * lanes * depth;
}

}  // namespace

double RunFp32Loop(int64_t rounds) {
  if (Best().kernels == &kAvx512Kernels) {
    Fp32Avx512(rounds);
    return Operations(rounds, 16, 1);
  }
  if (Best().kernels != &kAvx2Kernels) return 0;
  Fp32Avx2(rounds);
  return Operations(rounds, 8, 1);
}

double RunBf16Loop(int64_t rounds) {
  if (Best().bf16_dot == nullptr) return 0;
  Bf16Avx512(rounds);
  return Operations(rounds, 16, 2);
}

double RunInt8Loop(int64_t rounds) {
  if (Best().kernels != &kAvx512Kernels || !__builtin_cpu_supports("avx512vnni")) return 0;
  Int8Avx512(rounds);
  return Operations(rounds, 16, 4);
}

}  // namespace penstock
