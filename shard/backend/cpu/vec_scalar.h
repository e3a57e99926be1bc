#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "shard/backend/cpu/kernel_table.h"
#include "shard/base/half.h"

// A vector of 16 floats in plain C++: the definition that the other instruction sets must equal bit
// by bit, and the fallback everywhere. Only for kernels_scalar.cc.

namespace penstock {
namespace {

struct Vec16 {
  float lane[16];
};

constexpr int kRegisters = 8;       // in units of Vec16
constexpr int kTileRowsWide = 4;    // rows of a product tile 32 columns wide
constexpr int kTileRowsNarrow = 4;  // and 16 columns wide

inline void Prefetch(const void* address) { __builtin_prefetch(address); }

template <typename Function>
inline Vec16 PerLane(Function function) {
  Vec16 out;
  for (int i = 0; i < 16; ++i) out.lane[i] = function(i);
  return out;
}

inline Vec16 Broadcast(float x) {
  return PerLane([&](int) { return x; });
}
inline Vec16 Load(const float* p) {
  return PerLane([&](int i) { return p[i]; });
}
inline Vec16 Load(const F16* p) {
  return PerLane([&](int i) { return HalfToFloat(p[i].bits); });
}
inline Vec16 Load(const BF16* p) {
  return PerLane([&](int i) { return Bf16ToFloat(p[i].bits); });
}
// The first n < 16 lanes; the others are 0.
inline Vec16 LoadFirst(const float* p, int64_t n) {
  return PerLane([&](int i) { return i < n ? p[i] : 0.0f; });
}
inline void Store(Vec16 v, float* p) { std::memcpy(p, v.lane, sizeof(v.lane)); }
inline void Store(Vec16 v, F16* p) {
  for (int i = 0; i < 16; ++i) p[i].bits = FloatToHalf(v.lane[i]);
}
inline void Store(Vec16 v, BF16* p) {
  for (int i = 0; i < 16; ++i) p[i].bits = FloatToBf16(v.lane[i]);
}
inline void StoreFirst(Vec16 v, int64_t n, float* p) {
  for (int i = 0; i < n; ++i) p[i] = v.lane[i];
}

inline Vec16 Add(Vec16 a, Vec16 b) {
  return PerLane([&](int i) { return a.lane[i] + b.lane[i]; });
}
inline Vec16 Sub(Vec16 a, Vec16 b) {
  return PerLane([&](int i) { return a.lane[i] - b.lane[i]; });
}
inline Vec16 Mul(Vec16 a, Vec16 b) {
  return PerLane([&](int i) { return a.lane[i] * b.lane[i]; });
}
inline Vec16 Div(Vec16 a, Vec16 b) {
  return PerLane([&](int i) { return a.lane[i] / b.lane[i]; });
}
inline Vec16 Fma(Vec16 a, Vec16 b, Vec16 c) {  // a * b + c
  return PerLane([&](int i) { return std::fma(a.lane[i], b.lane[i], c.lane[i]); });
}
inline Vec16 Fms(Vec16 a, Vec16 b, Vec16 c) {  // a * b - c
  return PerLane([&](int i) { return std::fma(a.lane[i], b.lane[i], -c.lane[i]); });
}
// b where a or b is not a number, as the vector instructions do.
inline Vec16 Max(Vec16 a, Vec16 b) {
  return PerLane([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline Vec16 Min(Vec16 a, Vec16 b) {
  return PerLane([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
}

// v in lanes [begin, end), fill in the others.
inline Vec16 KeepRange(Vec16 v, int begin, int end, float fill) {
  return PerLane([&](int i) { return i >= begin && i < end ? v.lane[i] : fill; });
}
// 0 in lanes where x < limit, v in the others.
inline Vec16 ZeroBelow(Vec16 v, Vec16 x, float limit) {
  return PerLane([&](int i) { return x.lane[i] < limit ? 0.0f : v.lane[i]; });
}
// `below` in lanes where x < limit, `other` in the others.
inline Vec16 SelectBelow(Vec16 x, float limit, Vec16 below, Vec16 other) {
  return PerLane([&](int i) { return x.lane[i] < limit ? below.lane[i] : other.lane[i]; });
}
// 2^n, where the mantissa's low bits of `shifted` are the integer n.
inline Vec16 PowerOfTwo(Vec16 shifted) {
  return PerLane([&](int i) {
    return std::bit_cast<float>((std::bit_cast<uint32_t>(shifted.lane[i]) << 23) + 0x3f800000u);
  });
}

// Halves are added onto each other: i + (i + 8), then 4, 2, 1.
inline float SumLanes(Vec16 v) {
  for (int half = 8; half >= 1; half /= 2)
    for (int i = 0; i < half; ++i) v.lane[i] += v.lane[i + half];
  return v.lane[0];
}
inline float MaxLane(Vec16 v) {
  for (int half = 8; half >= 1; half /= 2)
    for (int i = 0; i < half; ++i)
      v.lane[i] = v.lane[i] > v.lane[i + half] ? v.lane[i] : v.lane[i + half];
  return v.lane[0];
}

}  // namespace
}  // namespace penstock
