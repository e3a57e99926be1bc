#pragma once

#include <immintrin.h>

#include <cstdint>

#include "shard/backend/cpu/kernel_table.h"

// A vector of 16 floats in two AVX registers (AVX2, FMA, F16C). What the functions mean is said in
// vec_scalar.h. Only for kernels_avx2.cc.

namespace penstock {
namespace {

struct Vec16 {
  __m256 lo, hi;
};

constexpr int kRegisters = 8;  // in units of Vec16
constexpr int kTileRowsWide = 3;
constexpr int kTileRowsNarrow = 6;

inline void Prefetch(const void* address) { __builtin_prefetch(address); }

// All ones in the lanes i + first < n of 8.
inline __m256i LanesBelow(int64_t n, int first) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n) - first), lane);
}

inline Vec16 Broadcast(float x) {
  const __m256 v = _mm256_set1_ps(x);
  return {v, v};
}
inline Vec16 Load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline Vec16 Load(const F16* p) {
  const auto* half = reinterpret_cast<const __m128i_u*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(half)), _mm256_cvtph_ps(_mm_loadu_si128(half + 1))};
}
inline __m256 WidenBf16(__m128i bits) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
inline Vec16 Load(const BF16* p) {
  const auto* half = reinterpret_cast<const __m128i_u*>(p);
  return {WidenBf16(_mm_loadu_si128(half)), WidenBf16(_mm_loadu_si128(half + 1))};
}
inline Vec16 LoadFirst(const float* p, int64_t n) {
  return {_mm256_maskload_ps(p, LanesBelow(n, 0)), _mm256_maskload_ps(p + 8, LanesBelow(n, 8))};
}
inline void Store(Vec16 v, float* p) {
  _mm256_storeu_ps(p, v.lo);
  _mm256_storeu_ps(p + 8, v.hi);
}
inline void Store(Vec16 v, F16* p) {
  constexpr int kRounding = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  auto* half = reinterpret_cast<__m128i_u*>(p);
  _mm_storeu_si128(half, _mm256_cvtps_ph(v.lo, kRounding));
  _mm_storeu_si128(half + 1, _mm256_cvtps_ph(v.hi, kRounding));
}
inline __m256i NarrowBf16(__m256 v) {  // in the low half of each 32 bits
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
}
inline void Store(Vec16 v, BF16* p) {
  const __m256i packed = _mm256_packus_epi32(NarrowBf16(v.lo), NarrowBf16(v.hi));
  _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}
inline void StoreFirst(Vec16 v, int64_t n, float* p) {
  _mm256_maskstore_ps(p, LanesBelow(n, 0), v.lo);
  _mm256_maskstore_ps(p + 8, LanesBelow(n, 8), v.hi);
}

inline Vec16 Add(Vec16 a, Vec16 b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
inline Vec16 Sub(Vec16 a, Vec16 b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
inline Vec16 Mul(Vec16 a, Vec16 b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
inline Vec16 Div(Vec16 a, Vec16 b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
inline Vec16 Fma(Vec16 a, Vec16 b, Vec16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
inline Vec16 Fms(Vec16 a, Vec16 b, Vec16 c) {
  return {_mm256_fmsub_ps(a.lo, b.lo, c.lo), _mm256_fmsub_ps(a.hi, b.hi, c.hi)};
}
inline Vec16 Max(Vec16 a, Vec16 b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
inline Vec16 Min(Vec16 a, Vec16 b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}

inline Vec16 KeepRange(Vec16 v, int begin, int end, float fill) {
  const __m256 other = _mm256_set1_ps(fill);
  const __m256i lo = _mm256_andnot_si256(LanesBelow(begin, 0), LanesBelow(end, 0));
  const __m256i hi = _mm256_andnot_si256(LanesBelow(begin, 8), LanesBelow(end, 8));
  return {_mm256_blendv_ps(other, v.lo, _mm256_castsi256_ps(lo)),
          _mm256_blendv_ps(other, v.hi, _mm256_castsi256_ps(hi))};
}
inline Vec16 ZeroBelow(Vec16 v, Vec16 x, float limit) {
  const __m256 bound = _mm256_set1_ps(limit);
  return {_mm256_and_ps(_mm256_cmp_ps(x.lo, bound, _CMP_NLT_UQ), v.lo),
          _mm256_and_ps(_mm256_cmp_ps(x.hi, bound, _CMP_NLT_UQ), v.hi)};
}
inline Vec16 SelectBelow(Vec16 x, float limit, Vec16 below, Vec16 other) {
  const __m256 bound = _mm256_set1_ps(limit);
  return {_mm256_blendv_ps(other.lo, below.lo, _mm256_cmp_ps(x.lo, bound, _CMP_LT_OQ)),
          _mm256_blendv_ps(other.hi, below.hi, _mm256_cmp_ps(x.hi, bound, _CMP_LT_OQ))};
}
inline __m256 PowerOfTwo(__m256 shifted) {
  const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(exponent, _mm256_set1_epi32(0x3f800000)));
}
inline Vec16 PowerOfTwo(Vec16 shifted) { return {PowerOfTwo(shifted.lo), PowerOfTwo(shifted.hi)}; }

inline float SumLanes(Vec16 v) {
  const __m256 a = _mm256_add_ps(v.lo, v.hi);
  const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_shuffle_ps(c, c, 1)));
}
inline float MaxLane(Vec16 v) {
  const __m256 a = _mm256_max_ps(v.lo, v.hi);
  const __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(c, _mm_shuffle_ps(c, c, 1)));
}

}  // namespace
}  // namespace penstock
