#pragma once

#include <cstdint>
#include <span>

#include "shard/backend/cpu/kernel_table.h"
#include "shard/backend/cpu/packed_weight.h"
#include "shard/backend/cpu/thread_pool.h"

namespace penstock {

// The rows of a product: x is f32 [rows, weight.cols()], or pairs of bf16 for a weight in pairs.
struct ProductRows {
  const void* x = nullptr;
  int64_t x_stride = 0;  // elements
  int64_t rows = 0;
  const float* bias = nullptr;  // [weight.rows()] or null
  float* out = nullptr;
  int64_t out_stride = 0;
};

using PanelKernel = void (*)(const PanelProduct&);

// out = x * weight^T + bias with `kernel`, then `activate` (unless null) on what is still in the
// core's cache; panels and (for few panels) rows shared out over the
// pool.
void MultiplyPacked(const ProductRows& product, const PackedWeight& weight, PanelKernel kernel,
                    void (*activate)(int64_t n, float* inout), ThreadPool& pool);

// What a thread has of the product at a time: gate beside up.
inline constexpr int64_t kTileRows = 60;
inline constexpr int64_t kSiluTileFloats = kTileRows * 2 * kPanelRows;

// out = silu(gate) * up of a product whose first half of columns is gate, each half whole panels.
// Neither leaves the core's cache. `tiles` has kSiluTileFloats for each of the pool's threads.
void MultiplySiluPacked(const ProductRows& product, const PackedWeight& weight, PanelKernel kernel,
                        void (*silu_mul)(const float* gate, const float* up, int64_t n, float* out),
                        std::span<float> tiles, ThreadPool& pool);

}  // namespace penstock
