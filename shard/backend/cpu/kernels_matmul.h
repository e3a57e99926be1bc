#pragma once

#include <cstdint>

#include "shard/backend/cpu/kernel_table.h"

// Products of rows with one packed panel. Include after a vec_*.h.
//
// Every output element is one chain of fused multiply-adds over the inputs from the first to the
// last, whatever the number of rows, so a row's result does not depend on its batch.

namespace penstock {
namespace {

constexpr int64_t kPrefetchBytes = 2048;

// The accumulators of kRows rows and 16 * kVecs columns stay in registers for the whole depth.
template <typename W, int kRows, int kVecs>
struct ProductTile {
  Vec16 sum[kRows][kVecs];

  // Fetches from `ahead` as it goes through the panel.
  inline void Multiply(const W* panel, const char* ahead, const float* x, int64_t x_stride,
                       int64_t depth) {
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVecs; ++v) sum[r][v] = Broadcast(0.0f);
    // Three rows per base pointer: the addressing modes reach the other two, so that the pointers
    // fit in the integer registers.
    const float* base[(kRows + 2) / 3];
    for (int g = 0; g < (kRows + 2) / 3; ++g) base[g] = x + 3 * g * x_stride;
    for (int64_t k = 0; k < depth; ++k) {
      Prefetch(ahead);
      if (sizeof(W) == 4) Prefetch(ahead + 64);
      ahead += kPanelRows * sizeof(W);
      Vec16 column[kVecs];
#pragma GCC unroll 2
      for (int v = 0; v < kVecs; ++v) column[v] = Load(panel + 16 * v);
#pragma GCC unroll 12
      for (int r = 0; r < kRows; ++r) {
        const Vec16 value = Broadcast(base[r / 3][(r % 3) * x_stride + k]);
#pragma GCC unroll 2
        for (int v = 0; v < kVecs; ++v) sum[r][v] = Fma(column[v], value, sum[r][v]);
      }
      panel += kPanelRows;
    }
  }

  inline void StoreTo(const float* bias, int64_t columns, float* out, int64_t out_stride) const {
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVecs; ++v)
        StoreColumns(sum[r][v], bias == nullptr ? nullptr : bias + 16 * v, columns - 16 * v,
                     out + r * out_stride + 16 * v);
  }

 private:
  static inline void StoreColumns(Vec16 value, const float* bias, int64_t columns, float* out) {
    if (columns >= 16) {
      Store(bias == nullptr ? value : Add(value, Load(bias)), out);
    } else if (columns > 0) {
      StoreFirst(bias == nullptr ? value : Add(value, LoadFirst(bias, columns)), columns, out);
    }
  }
};

// kRows is the first template argument tried; fewer rows recurse.
template <typename W, int kVecs, int kRows>
inline void RunTile(int rows, const W* panel, const char* ahead, const float* x,
                    const PanelProduct& p, const float* bias, int64_t columns, float* out) {
  if constexpr (kRows > 1) {
    if (rows < kRows)
      return RunTile<W, kVecs, kRows - 1>(rows, panel, ahead, x, p, bias, columns, out);
  }
  ProductTile<W, kRows, kVecs> tile;
  tile.Multiply(panel, ahead, x, p.x_stride, p.depth);
  tile.StoreTo(bias, columns, out, p.out_stride);
}

// Rows are cut into tiles of nearly equal height: a low tile costs as much time as a higher one.
// The first one reads the panel from memory; the others have it in cache, and fetch the next.
template <typename W>
void MultiplyPanel(const PanelProduct& p) {
  const bool wide = p.rows <= kTileRowsWide || kTileRowsWide == kTileRowsNarrow;
  const int64_t highest = wide ? kTileRowsWide : kTileRowsNarrow;
  const int64_t tiles = (p.rows + highest - 1) / highest;
  const W* panel = static_cast<const W*>(p.panel);
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t row = p.rows * t / tiles;
    const int rows = static_cast<int>(p.rows * (t + 1) / tiles - row);
    const float* x = static_cast<const float*>(p.x) + row * p.x_stride;
    float* out = p.out + row * p.out_stride;
    const char* ahead = t == 0 || p.next == nullptr
                            ? static_cast<const char*>(p.panel) + kPrefetchBytes
                            : static_cast<const char*>(p.next);
    if (wide) {
      RunTile<W, 2, kTileRowsWide>(rows, panel, ahead, x, p, p.bias, p.columns, out);
      continue;
    }
    RunTile<W, 1, kTileRowsNarrow>(rows, panel, ahead, x, p, p.bias, p.columns, out);
    if (p.columns > 16) {
      RunTile<W, 1, kTileRowsNarrow>(rows, panel + 16, ahead, x, p,
                                     p.bias == nullptr ? nullptr : p.bias + 16, p.columns - 16,
                                     out + 16);
    }
  }
}

}  // namespace
}  // namespace penstock
