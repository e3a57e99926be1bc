#pragma once

#include <cstdint>

#include "shard/backend/cpu/kernel_table.h"

// Kernels of encoders over rows of floats. Include after a vec_*.h and kernels_elementwise.h.

namespace penstock {
namespace {

// max(x, 0) - |x| Q(|x|), where Q(a) = erfc(a / sqrt 2) / 2 = exp(-a^2 / 2) t P(t) with
// t = 1 / (1 + 0.35 a): so that no sum cancels for a negative x. P has degree 8 (interpolation at
// Chebyshev nodes with the relative error as the measure, 4e-8 before rounding). Error below 4e-7,
// relative for x > -1 and absolute below.
inline Vec16 Gelu(Vec16 x) {
  const Vec16 zero = Broadcast(0.0f), one = Broadcast(1.0f);
  const Vec16 minus_a = Min(Sub(zero, x), x);
  const Vec16 t = Div(one, Fma(minus_a, Broadcast(-0.35f), one));
  Vec16 p = Broadcast(-0x1.e49504p-6f);
  p = Fma(p, t, Broadcast(0x1.2b263ep-3f));
  p = Fma(p, t, Broadcast(-0x1.0a4610p-2f));
  p = Fma(p, t, Broadcast(0x1.500086p-3f));
  p = Fma(p, t, Broadcast(-0x1.b0e8d0p-6f));
  p = Fma(p, t, Broadcast(0x1.b5c418p-4f));
  p = Fma(p, t, Broadcast(0x1.e976e2p-4f));
  p = Fma(p, t, Broadcast(0x1.1e8706p-3f));
  p = Fma(p, t, Broadcast(0x1.1df094p-3f));
  const Vec16 density = Exp(Mul(Mul(x, x), Broadcast(-0.5f)));
  return Fma(minus_a, Mul(Mul(density, t), p), Max(zero, x));
}

// 0.5 x (1 + tanh u) = x / (1 + exp(-2 u))
inline Vec16 GeluTanh(Vec16 x) {
  const Vec16 one = Broadcast(1.0f);
  const Vec16 cubic = Fma(Mul(x, x), Broadcast(0.044715f), one);
  const Vec16 exponent = Mul(Mul(x, Broadcast(-1.59576912f)), cubic);
  return Div(x, Add(one, Exp(exponent)));
}

inline Vec16 Relu(Vec16 x) { return Max(Broadcast(0.0f), x); }

// Near 0 an odd polynomial (Moshier's Cephes, tanhf), elsewhere 1 - 2 / (exp(2 x) + 1). Error below
// 3e-7.
inline Vec16 Tanh(Vec16 x) {
  const Vec16 one = Broadcast(1.0f), z = Mul(x, x);
  Vec16 p = Broadcast(-5.70498872745e-3f);
  p = Fma(p, z, Broadcast(2.06390887954e-2f));
  p = Fma(p, z, Broadcast(-5.37397155531e-2f));
  p = Fma(p, z, Broadcast(1.33314422036e-1f));
  p = Fma(p, z, Broadcast(-3.33332819422e-1f));
  const Vec16 near = Fma(Mul(p, z), x, x);
  const Vec16 far = Sub(one, Div(Broadcast(2.0f), Add(Exp(Add(x, x)), one)));
  return SelectBelow(z, 0.390625f, near, far);
}

template <Vec16 (*kFunction)(Vec16)>
void Apply(int64_t n, float* inout) {
  ForEachVector(n, [=](int64_t i, auto io) { io.Put(kFunction(io.Get(inout + i)), inout + i); });
}

// The mean first, then the squares of what deviates from it.
void LayerNorm(const float* x, const float* weight, const float* bias, float eps, int64_t n,
               float* out) {
  Vec16 sum = Broadcast(0.0f), squares = Broadcast(0.0f);
  ForEachVector(n, [&](int64_t i, auto io) { sum = Add(sum, io.Get(x + i)); });
  const float mean = SumLanes(sum) / static_cast<float>(n);
  const Vec16 shift = Broadcast(mean);
  ForEachVector(n, [&](int64_t i, auto io) {
    const Vec16 v = io.Keep(Sub(io.Get(x + i), shift));
    squares = Fma(v, v, squares);
  });
  const Vec16 scale = Broadcast(InverseRms(SumLanes(squares), n, eps));
  ForEachVector(n, [=](int64_t i, auto io) {
    const Vec16 v = Mul(Sub(io.Get(x + i), shift), scale);
    io.Put(Fma(v, io.Get(weight + i), io.Get(bias + i)), out + i);
  });
}

void AddLayerNorm(const float* delta, const float* weight, const float* bias, float eps, int64_t n,
                  float* inout) {
  AddTo(delta, n, inout);
  LayerNorm(inout, weight, bias, eps, n, inout);
}

// Column by column one chain over the rows from the first to the last.
void MeanRows(const float* x, int64_t stride, int64_t rows, int64_t n, float* out) {
  const Vec16 count = Broadcast(static_cast<float>(rows));
  ForEachVector(n, [=](int64_t i, auto io) {
    Vec16 sum = Broadcast(0.0f);
    for (int64_t row = 0; row < rows; ++row) sum = Add(sum, io.Get(x + row * stride + i));
    io.Put(Div(sum, count), out + i);
  });
}

void NormalizeRow(int64_t n, float* inout) {
  Vec16 squares = Broadcast(0.0f);
  ForEachVector(n, [&](int64_t i, auto io) {
    const Vec16 v = io.Get(inout + i);
    squares = Fma(v, v, squares);
  });
  const float length = __builtin_sqrtf(SumLanes(squares));
  const Vec16 divisor = Broadcast(length > 1e-12f ? length : 1e-12f);
  ForEachVector(n, [=](int64_t i, auto io) { io.Put(Div(io.Get(inout + i), divisor), inout + i); });
}

}  // namespace
}  // namespace penstock
