#pragma once

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

// out = x * weight^T + bias with `kernel`, panels and (for few panels) rows shared out over the
// pool.
void MultiplyPacked(const ProductRows& product, const PackedWeight& weight,
                    void (*kernel)(const PanelProduct&), ThreadPool& pool);

}  // namespace penstock
