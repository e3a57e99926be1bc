#pragma once

#include <cstdint>

#include "shard/backend/cpu/kernel_table.h"

// Kernels over rows of floats. Include after a vec_*.h.

namespace penstock {
namespace {

// Calls step(i, load, store) for every 16 numbers, with whole vectors while they last.
struct WholeVector {
  inline Vec16 Keep(Vec16 v) const { return v; }  // 0 in lanes behind the end
  inline Vec16 Get(const float* p) const { return Load(p); }
  inline void Put(Vec16 v, float* p) const { Store(v, p); }
};
struct PartVector {
  int64_t n;
  inline Vec16 Keep(Vec16 v) const { return KeepRange(v, 0, static_cast<int>(n), 0.0f); }
  inline Vec16 Get(const float* p) const { return LoadFirst(p, n); }
  inline void Put(Vec16 v, float* p) const { StoreFirst(v, n, p); }
};
template <typename Step>
inline void ForEachVector(int64_t n, Step step) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) step(i, WholeVector{});
  if (i < n) step(i, PartVector{n - i});
}

// Cephes-style: x = n * ln 2 + r with |r| <= ln 2 / 2; e^r by a polynomial of degree 6 (Chebyshev
// interpolation of (e^r - 1 - r) / r^2, relative error 1.1e-8 before rounding); times 2^n.
// Relative error below 2e-7; 0 below -87.3; capped above 88; NaN stays NaN.
inline Vec16 Exp(Vec16 x) {
  constexpr float kLowest = -87.3f;
  // Adding it rounds to an integer, which is left in the low mantissa bits.
  const Vec16 rounder = Broadcast(12582912.0f);
  const Vec16 y = Min(Broadcast(88.0f), Max(Broadcast(kLowest), x));
  const Vec16 shifted = Fma(y, Broadcast(1.44269502f), rounder);
  const Vec16 n = Sub(shifted, rounder);
  Vec16 r = Fma(n, Broadcast(-0.693359375f), y);
  r = Fma(n, Broadcast(2.12194440e-4f), r);
  Vec16 q = Broadcast(0x1.6d117cp-10f);
  q = Fma(q, r, Broadcast(0x1.120be2p-7f));
  q = Fma(q, r, Broadcast(0x1.555518p-5f));
  q = Fma(q, r, Broadcast(0x1.5554dcp-3f));
  q = Fma(q, r, Broadcast(0.5f));
  const Vec16 power = Add(Fma(Mul(r, r), q, r), Broadcast(1.0f));
  return ZeroBelow(Mul(power, PowerOfTwo(shifted)), x, kLowest);
}

inline float InverseRms(float sum_of_squares, int64_t n, float eps) {
  return 1.0f / __builtin_sqrtf(sum_of_squares / static_cast<float>(n) + eps);
}

inline void ScaleByWeight(const float* x, float scale, const float* weight, int64_t n, float* out) {
  const Vec16 factor = Broadcast(scale);
  ForEachVector(n, [=](int64_t i, auto io) {
    io.Put(Mul(Mul(io.Get(x + i), factor), io.Get(weight + i)), out + i);
  });
}

void RmsNorm(const float* x, const float* weight, float eps, int64_t n, float* out) {
  Vec16 squares = Broadcast(0.0f);
  ForEachVector(n, [&](int64_t i, auto io) {
    const Vec16 v = io.Get(x + i);
    squares = Fma(v, v, squares);
  });
  ScaleByWeight(x, InverseRms(SumLanes(squares), n, eps), weight, n, out);
}

void AddRmsNorm(const float* delta, const float* weight, float eps, int64_t n, float* residual,
                float* out) {
  Vec16 squares = Broadcast(0.0f);
  ForEachVector(n, [&](int64_t i, auto io) {
    const Vec16 v = Add(io.Get(residual + i), io.Get(delta + i));
    io.Put(v, residual + i);
    squares = Fma(v, v, squares);
  });
  ScaleByWeight(residual, InverseRms(SumLanes(squares), n, eps), weight, n, out);
}

void AddTo(const float* delta, int64_t n, float* inout) {
  ForEachVector(
      n, [=](int64_t i, auto io) { io.Put(Add(io.Get(inout + i), io.Get(delta + i)), inout + i); });
}

void SiluMul(const float* gate, const float* up, int64_t n, float* out) {
  const Vec16 zero = Broadcast(0.0f), one = Broadcast(1.0f);
  ForEachVector(n, [=](int64_t i, auto io) {
    const Vec16 g = io.Get(gate + i);
    const Vec16 silu = Div(g, Add(one, Exp(Sub(zero, g))));
    io.Put(Mul(silu, io.Get(up + i)), out + i);
  });
}

void Rotate(const float* cos, const float* sin, int64_t half, float* inout) {
  ForEachVector(half, [=](int64_t i, auto io) {
    const Vec16 a = io.Get(inout + i), b = io.Get(inout + half + i);
    const Vec16 c = io.Get(cos + i), s = io.Get(sin + i);
    io.Put(Fms(a, c, Mul(b, s)), inout + i);
    io.Put(Fma(b, c, Mul(a, s)), inout + half + i);
  });
}

}  // namespace
}  // namespace penstock
