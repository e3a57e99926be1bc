#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "shard/backend/cpu/kernel_table.h"

// A vector of 16 floats in four NEON registers (what every 64-bit ARM processor has). What the
// functions mean is said in vec_scalar.h. Only for kernels_neon.cc.

namespace penstock {
namespace {

struct Vec16 {
  float32x4_t q[4];
};

constexpr int kRegisters = 8;  // in units of Vec16
constexpr int kTileRowsWide = 2;
constexpr int kTileRowsNarrow = 6;

inline void Prefetch(const void* address) { __builtin_prefetch(address); }

// function(quarter) for each of the four registers.
template <typename Function>
inline Vec16 PerQuarter(Function function) {
  return {{function(0), function(1), function(2), function(3)}};
}

// All ones in the lanes of a quarter that are [begin, end) of the 16.
inline uint32x4_t LanesWithin(int quarter, int begin, int end) {
  const int32_t kFirst[4] = {0, 1, 2, 3};
  const int32x4_t lane = vaddq_s32(vld1q_s32(kFirst), vdupq_n_s32(4 * quarter));
  return vandq_u32(vcgeq_s32(lane, vdupq_n_s32(begin)), vcltq_s32(lane, vdupq_n_s32(end)));
}

inline Vec16 Broadcast(float x) {
  const float32x4_t v = vdupq_n_f32(x);
  return {{v, v, v, v}};
}
inline Vec16 Load(const float* p) {
  return PerQuarter([&](int i) { return vld1q_f32(p + 4 * i); });
}
inline float32x4_t WidenHalf(const uint16_t* p) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
inline Vec16 Load(const F16* p) {
  return PerQuarter([&](int i) { return WidenHalf(&p->bits + 4 * i); });
}
inline float32x4_t WidenBf16(const uint16_t* p) {
  return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}
inline Vec16 Load(const BF16* p) {
  return PerQuarter([&](int i) { return WidenBf16(&p->bits + 4 * i); });
}
inline Vec16 LoadFirst(const float* p, int64_t n) {
  float lane[16] = {};
  for (int64_t i = 0; i < n; ++i) lane[i] = p[i];
  return Load(lane);
}
inline void Store(Vec16 v, float* p) {
  for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, v.q[i]);
}
inline void Store(Vec16 v, F16* p) {
  for (int i = 0; i < 4; ++i)
    vst1_u16(&p->bits + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(v.q[i])));
}
inline uint16x4_t RoundToBf16(float32x4_t v) {
  const uint32x4_t bits = vreinterpretq_u32_f32(v);
  const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
  const uint32x4_t rounded = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
  const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
  return vshrn_n_u32(vbslq_u32(vceqq_f32(v, v), rounded, quiet), 16);
}
inline void Store(Vec16 v, BF16* p) {
  for (int i = 0; i < 4; ++i) vst1_u16(&p->bits + 4 * i, RoundToBf16(v.q[i]));
}
inline void StoreFirst(Vec16 v, int64_t n, float* p) {
  float lane[16];
  Store(v, lane);
  for (int64_t i = 0; i < n; ++i) p[i] = lane[i];
}

inline Vec16 Add(Vec16 a, Vec16 b) {
  return PerQuarter([&](int i) { return vaddq_f32(a.q[i], b.q[i]); });
}
inline Vec16 Sub(Vec16 a, Vec16 b) {
  return PerQuarter([&](int i) { return vsubq_f32(a.q[i], b.q[i]); });
}
inline Vec16 Mul(Vec16 a, Vec16 b) {
  return PerQuarter([&](int i) { return vmulq_f32(a.q[i], b.q[i]); });
}
inline Vec16 Div(Vec16 a, Vec16 b) {
  return PerQuarter([&](int i) { return vdivq_f32(a.q[i], b.q[i]); });
}
inline Vec16 Fma(Vec16 a, Vec16 b, Vec16 c) {
  return PerQuarter([&](int i) { return vfmaq_f32(c.q[i], a.q[i], b.q[i]); });
}
inline Vec16 Fms(Vec16 a, Vec16 b, Vec16 c) {
  return PerQuarter([&](int i) { return vfmaq_f32(vnegq_f32(c.q[i]), a.q[i], b.q[i]); });
}
// Not the instructions for it: those return NaN where either is.
inline float32x4_t MaxOf(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
inline Vec16 Max(Vec16 a, Vec16 b) {
  return PerQuarter([&](int i) { return MaxOf(a.q[i], b.q[i]); });
}
inline Vec16 Min(Vec16 a, Vec16 b) {
  return PerQuarter([&](int i) { return vbslq_f32(vcltq_f32(a.q[i], b.q[i]), a.q[i], b.q[i]); });
}

inline Vec16 KeepRange(Vec16 v, int begin, int end, float fill) {
  const float32x4_t other = vdupq_n_f32(fill);
  return PerQuarter([&](int i) { return vbslq_f32(LanesWithin(i, begin, end), v.q[i], other); });
}
inline Vec16 ZeroBelow(Vec16 v, Vec16 x, float limit) {
  const float32x4_t bound = vdupq_n_f32(limit), zero = vdupq_n_f32(0.0f);
  return PerQuarter([&](int i) { return vbslq_f32(vcltq_f32(x.q[i], bound), zero, v.q[i]); });
}
inline Vec16 SelectBelow(Vec16 x, float limit, Vec16 below, Vec16 other) {
  const float32x4_t bound = vdupq_n_f32(limit);
  return PerQuarter(
      [&](int i) { return vbslq_f32(vcltq_f32(x.q[i], bound), below.q[i], other.q[i]); });
}
inline Vec16 PowerOfTwo(Vec16 shifted) {
  return PerQuarter([&](int i) {
    const uint32x4_t exponent = vshlq_n_u32(vreinterpretq_u32_f32(shifted.q[i]), 23);
    return vreinterpretq_f32_u32(vaddq_u32(exponent, vdupq_n_u32(0x3f800000)));
  });
}

inline float SumLanes(Vec16 v) {
  const float32x4_t four = vaddq_f32(vaddq_f32(v.q[0], v.q[2]), vaddq_f32(v.q[1], v.q[3]));
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
inline float MaxLane(Vec16 v) {
  float32x4_t most = MaxOf(MaxOf(v.q[0], v.q[2]), MaxOf(v.q[1], v.q[3]));
  most = MaxOf(most, vextq_f32(most, most, 2));
  most = MaxOf(most, vextq_f32(most, most, 1));
  return vgetq_lane_f32(most, 0);
}

}  // namespace
}  // namespace penstock
