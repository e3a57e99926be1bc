#include "shard/backend/cpu/packed_weight.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shard/base/half.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

// Inputs in a panel, padding included.
int64_t PaddedCols(int64_t cols, bool pairs) { return pairs ? (cols + 1) / 2 * 2 : cols; }

// Copies rows [0, rows) of `from` to a panel. Blocks of inputs, so that both sides stay in cache.
template <typename T>
void PackPanel(const T* from, int64_t stride, int64_t rows, int64_t cols, bool pairs, T* panel) {
  constexpr int64_t kBlock = 64;
  for (int64_t begin = 0; begin < cols; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, cols);
    for (int64_t r = 0; r < rows; ++r) {
      const T* row = from + r * stride;
      if (pairs) {
        for (int64_t k = begin; k < end; ++k) panel[(k / 2 * kPanelRows + r) * 2 + k % 2] = row[k];
      } else {
        for (int64_t k = begin; k < end; ++k) panel[k * kPanelRows + r] = row[k];
      }
    }
  }
}

template <typename T, typename Widen>
void UnpackStrided(const T* panel, int64_t lane, int64_t cols, Widen widen, float* out) {
  for (int64_t k = 0; k < cols; ++k) out[k] = widen(panel[k * kPanelRows + lane]);
}

}  // namespace

int64_t PackedWeight::BytesFor(int64_t rows, int64_t cols, DType dtype, bool pairs) {
  constexpr int64_t kMost = int64_t{1} << 60;
  if (rows < 0 || cols < 0 || rows > kMost || cols > kMost) return -1;
  const int64_t padded_rows = (rows + kPanelRows - 1) / kPanelRows * kPanelRows;
  return ByteCount(padded_rows, PaddedCols(cols, pairs), static_cast<int64_t>(SizeOf(dtype)));
}

PackedWeight::PackedWeight(const Matrix& host, bool pairs, HostMemory memory)
    : rows_(host.rows),
      cols_(host.cols),
      dtype_(host.dtype),
      pairs_(pairs),
      bytes_(BytesFor(rows_, cols_, dtype_, pairs)),
      panel_bytes_(kPanelRows * PaddedCols(cols_, pairs) * static_cast<int64_t>(SizeOf(dtype_))),
      memory_(std::move(memory)) {}

absl::StatusOr<std::unique_ptr<PackedWeight>> PackedWeight::Pack(const Matrix& host, bool pairs,
                                                                 ThreadPool& pool) {
  const int64_t bytes = BytesFor(host.rows, host.cols, host.dtype, pairs);
  if (host.rows <= 0 || host.cols <= 0 || host.data == nullptr || host.dtype == DType::kI32 ||
      (host.stride < host.cols && host.rows > 1))
    return absl::InvalidArgumentError(absl::StrCat("weight [", host.rows, ", ", host.cols, "] ",
                                                   Name(host.dtype), " with stride ", host.stride,
                                                   " cannot be packed"));
  if (bytes < 0)
    return absl::ResourceExhaustedError(
        absl::StrCat("weight [", host.rows, ", ", host.cols, "] is larger than any memory"));
  ASSIGN_OR_RETURN(HostMemory memory, AllocateZeroed(bytes));
  std::unique_ptr<PackedWeight> weight(new PackedWeight(host, pairs, std::move(memory)));
  pool.ForRanges(weight->panels(), 1, [&](Range panels, int) {
    for (int64_t p = panels.begin; p < panels.end; ++p) {
      const int64_t rows = std::min<int64_t>(kPanelRows, host.rows - p * kPanelRows);
      const void* from = host.At(p * kPanelRows, 0);
      if (SizeOf(host.dtype) == 2) {
        PackPanel(static_cast<const uint16_t*>(from), host.stride, rows, host.cols, pairs,
                  reinterpret_cast<uint16_t*>(weight->Panel(p)));
      } else {
        PackPanel(static_cast<const float*>(from), host.stride, rows, host.cols, false,
                  reinterpret_cast<float*>(weight->Panel(p)));
      }
    }
  });
  return weight;
}

void PackedWeight::UnpackRow(int64_t row, float* out) const {
  const std::byte* panel = Panel(row / kPanelRows);
  const int64_t lane = row % kPanelRows;
  const auto* halves = reinterpret_cast<const uint16_t*>(panel);
  if (pairs_) {
    for (int64_t k = 0; k < cols_; ++k)
      out[k] = Bf16ToFloat(halves[(k / 2 * kPanelRows + lane) * 2 + k % 2]);
  } else if (dtype_ == DType::kBF16) {
    UnpackStrided(halves, lane, cols_, Bf16ToFloat, out);
  } else if (dtype_ == DType::kF16) {
    UnpackStrided(halves, lane, cols_, HalfToFloat, out);
  } else {
    UnpackStrided(
        reinterpret_cast<const float*>(panel), lane, cols_, [](float x) { return x; }, out);
  }
}

}  // namespace penstock
