#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "shard/base/dtype.h"

namespace penstock {

// A row-major window on device memory that it does not own. Pass by value.
struct Matrix {
  void* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;  // elements from one row to the next
  DType dtype = DType::kF32;

  void* At(int64_t row, int64_t col) const {
    return static_cast<std::byte*>(data) + static_cast<size_t>(row * stride + col) * SizeOf(dtype);
  }
  Matrix Rows(int64_t begin, int64_t count) const {
    return {At(begin, 0), count, cols, stride, dtype};
  }
  Matrix Cols(int64_t begin, int64_t count) const {
    return {At(0, begin), rows, count, stride, dtype};
  }
  float* F32() const { return static_cast<float*>(data); }
  int32_t* I32() const { return static_cast<int32_t*>(data); }
};

// A matrix and the memory under it. Move-only.
struct OwnedMatrix {
  Matrix view;
  std::unique_ptr<void, std::function<void(void*)>> memory;
};

}  // namespace penstock
