#pragma once

#include <cstdint>

#include "shard/backend/cpu/kernel_table.h"

// Kernels over the logits of one row. Include after a vec_*.h and kernels_elementwise.h.

namespace penstock {
namespace {

// v in lanes where low <= v < above, `other` in the others; NaN is in neither.
inline Vec16 KeepWithin(Vec16 v, float low, float above, float other) {
  const Vec16 fill = Broadcast(other);
  const Vec16 kept = SelectBelow(v, above, v, fill);
  return SelectBelow(kept, low, fill, kept);
}

float HighestFinite(const float* logits, int64_t n) {
  constexpr float kInfinity = __builtin_inff(), kLowest = -__FLT_MAX__;
  Vec16 highest[4] = {Broadcast(-kInfinity), Broadcast(-kInfinity), Broadcast(-kInfinity),
                      Broadcast(-kInfinity)};
  int64_t i = 0;
  for (; i + 64 <= n; i += 64)
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j)
      highest[j] =
          Max(highest[j], KeepWithin(Load(logits + i + 16 * j), kLowest, kInfinity, -kInfinity));
  for (; i < n; i += 16) {
    const int64_t left = n - i < 16 ? n - i : 16;
    const Vec16 v = KeepWithin(LoadFirst(logits + i, left), kLowest, kInfinity, -kInfinity);
    highest[0] = Max(highest[0], KeepRange(v, 0, static_cast<int>(left), -kInfinity));
  }
  return MaxLane(Max(Max(highest[0], highest[1]), Max(highest[2], highest[3])));
}

void Weigh(const LogitWeights& w) {
  constexpr float kAboveOne = 1.0f + __FLT_EPSILON__;
  const Vec16 shift = Broadcast(w.highest), factor = Broadcast(w.scale);
  for (int64_t block = 0; block * kWeightBlock < w.count; ++block) {
    const int64_t begin = block * kWeightBlock;
    const int64_t size = w.count - begin < kWeightBlock ? w.count - begin : kWeightBlock;
    Vec16 sum = Broadcast(0.0f), most = Broadcast(0.0f);
    ForEachVector(size, [&](int64_t i, auto io) {
      const Vec16 power = Exp(Mul(Sub(io.Get(w.logits + begin + i), shift), factor));
      const Vec16 weight = io.Keep(KeepWithin(power, w.least, kAboveOne, 0.0f));
      io.Put(weight, w.weights + begin + i);
      sum = Add(sum, weight);
      most = Max(most, weight);
    });
    w.sums[block] = SumLanes(sum);
    w.most[block] = MaxLane(most);
  }
}

}  // namespace
}  // namespace penstock
