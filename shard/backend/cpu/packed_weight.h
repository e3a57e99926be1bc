#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "shard/backend/cpu/kernel_table.h"
#include "shard/backend/cpu/memory.h"
#include "shard/backend/cpu/thread_pool.h"
#include "shard/backend/ops.h"

namespace penstock {

// A weight in panels of 32 output rows, in its own dtype: [ceil(rows / 32)][cols][32], or for the
// bf16 dot product [ceil(rows / 32)][ceil(cols / 2)][32][2]. Padding is zero. Immutable.
class PackedWeight : public Weight {
 public:
  // host is row-major [outputs, inputs] with any stride; it is not needed afterwards.
  static absl::StatusOr<std::unique_ptr<PackedWeight>> Pack(const Matrix& host, bool pairs,
                                                            ThreadPool& pool);
  // Bytes a packed weight takes; -1 for absurd shapes.
  static int64_t BytesFor(int64_t rows, int64_t cols, DType dtype, bool pairs);

  int64_t rows() const override { return rows_; }
  int64_t cols() const override { return cols_; }
  DType dtype() const override { return dtype_; }
  int64_t bytes() const override { return bytes_; }

  bool pairs() const { return pairs_; }
  int64_t panels() const { return (rows_ + kPanelRows - 1) / kPanelRows; }
  const std::byte* Panel(int64_t index) const {
    return static_cast<const std::byte*>(memory_.get()) + index * panel_bytes_;
  }
  // Widens one row into out[cols()].
  void UnpackRow(int64_t row, float* out) const;

 private:
  PackedWeight(const Matrix& host, bool pairs, HostMemory memory);
  std::byte* Panel(int64_t index) {
    return static_cast<std::byte*>(memory_.get()) + index * panel_bytes_;
  }

  const int64_t rows_, cols_;
  const DType dtype_;
  const bool pairs_;
  const int64_t bytes_;
  const int64_t panel_bytes_;
  HostMemory memory_;
};

}  // namespace penstock
