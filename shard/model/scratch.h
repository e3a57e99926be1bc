#pragma once

#include <cstdint>

#include "shard/backend/matrix.h"

namespace penstock {

// Cuts f32 matrices out of one block, front to back. A value: a copy goes on from where the
// original is, so what one phase takes through a copy is free again for the next. Over an empty
// block it only counts, which is how the block's size is found. Taking more than there is, is the
// caller's error.
class Scratch {
 public:
  explicit Scratch(Matrix block) : base_(block.F32()) {}
  Scratch() = default;

  Matrix Take(int64_t rows, int64_t cols) {
    float* data = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (rows * cols + kAlign - 1) / kAlign * kAlign;
    return {data, rows, cols, cols, DType::kF32};
  }
  int64_t used() const { return used_; }  // floats

 private:
  static constexpr int64_t kAlign = 16;  // floats: a cache line
  float* base_ = nullptr;
  int64_t used_ = 0;
};

}  // namespace penstock
