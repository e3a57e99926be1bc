#pragma once

#include <immintrin.h>

#include <cstdint>

#include "shard/backend/cpu/kernel_table.h"

// A vector of 16 floats in one AVX-512 register (F, BW, VL, DQ). What the functions mean is said in
// vec_scalar.h. Only for kernels_avx512*.cc.

namespace penstock {
namespace {

struct Vec16 {
  __m512 v;
};

constexpr int kRegisters = 32;
constexpr int kTileRowsWide = 12;
constexpr int kTileRowsNarrow = 12;

inline void Prefetch(const void* address) { __builtin_prefetch(address); }

inline __mmask16 FirstLanes(int64_t n) { return static_cast<__mmask16>((1u << n) - 1); }

inline Vec16 Broadcast(float x) { return {_mm512_set1_ps(x)}; }
inline Vec16 Load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline Vec16 Load(const F16* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(p)))};
}
inline Vec16 Load(const BF16* p) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
}
inline Vec16 LoadFirst(const float* p, int64_t n) {
  return {_mm512_maskz_loadu_ps(FirstLanes(n), p)};
}
inline void Store(Vec16 v, float* p) { _mm512_storeu_ps(p, v.v); }
inline void Store(Vec16 v, F16* p) {
  _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(p),
                      _mm512_cvtps_ph(v.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline void Store(Vec16 v, BF16* p) {
  const __m512i bits = _mm512_castps_si512(v.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  const __mmask16 nan = _mm512_cmp_ps_mask(v.v, v.v, _CMP_UNORD_Q);
  const __m512i high = _mm512_srli_epi32(_mm512_mask_mov_epi32(rounded, nan, quiet), 16);
  _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(p), _mm512_cvtepi32_epi16(high));
}
inline void StoreFirst(Vec16 v, int64_t n, float* p) {
  _mm512_mask_storeu_ps(p, FirstLanes(n), v.v);
}

inline Vec16 Add(Vec16 a, Vec16 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Vec16 Sub(Vec16 a, Vec16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Vec16 Mul(Vec16 a, Vec16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Vec16 Div(Vec16 a, Vec16 b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Vec16 Fma(Vec16 a, Vec16 b, Vec16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Vec16 Fms(Vec16 a, Vec16 b, Vec16 c) { return {_mm512_fmsub_ps(a.v, b.v, c.v)}; }
inline Vec16 Max(Vec16 a, Vec16 b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Vec16 Min(Vec16 a, Vec16 b) { return {_mm512_min_ps(a.v, b.v)}; }

inline Vec16 KeepRange(Vec16 v, int begin, int end, float fill) {
  const __mmask16 keep = static_cast<__mmask16>(((1u << end) - 1) & ~((1u << begin) - 1));
  return {_mm512_mask_mov_ps(_mm512_set1_ps(fill), keep, v.v)};
}
inline Vec16 ZeroBelow(Vec16 v, Vec16 x, float limit) {
  const __mmask16 keep = _mm512_cmp_ps_mask(x.v, _mm512_set1_ps(limit), _CMP_NLT_UQ);
  return {_mm512_maskz_mov_ps(keep, v.v)};
}
inline Vec16 SelectBelow(Vec16 x, float limit, Vec16 below, Vec16 other) {
  const __mmask16 mask = _mm512_cmp_ps_mask(x.v, _mm512_set1_ps(limit), _CMP_LT_OQ);
  return {_mm512_mask_mov_ps(other.v, mask, below.v)};
}
inline Vec16 PowerOfTwo(Vec16 shifted) {
  const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(shifted.v), 23);
  return {_mm512_castsi512_ps(_mm512_add_epi32(exponent, _mm512_set1_epi32(0x3f800000)))};
}

inline float SumLanes(Vec16 v) {
  const __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v.v), _mm512_extractf32x8_ps(v.v, 1));
  const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_shuffle_ps(c, c, 1)));
}
inline float MaxLane(Vec16 v) {
  const __m256 a = _mm256_max_ps(_mm512_castps512_ps256(v.v), _mm512_extractf32x8_ps(v.v, 1));
  const __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(c, _mm_shuffle_ps(c, c, 1)));
}

}  // namespace
}  // namespace penstock
