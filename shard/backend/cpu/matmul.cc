#include "shard/backend/cpu/matmul.h"

#include <algorithm>

namespace penstock {
namespace {

// Rows that pass over all of a thread's panels before the next ones: so many that their activations
// stay in the core's own cache, while the panels come from the shared one or from memory.
constexpr int64_t kBlockBytes = int64_t{768} << 10;
constexpr int64_t kLeastBlockRows = 96, kMostBlockRows = 512;

int64_t BlockRows(int64_t row_bytes) {
  return std::clamp(kBlockBytes / row_bytes, kLeastBlockRows, kMostBlockRows);
}

// Below this many rows, splitting them between threads would read panels twice for nothing.
constexpr int64_t kMinSplitRows = 24;
// From this many on, a thread has rows of its own: they stay in its caches from one operation to
// the next, which is worth more than reading each panel once. Fewer would make memory the limit.
constexpr int64_t kMinOwnRows = 96;

// Into how many groups of rows, so that every thread gets about the same share of the pieces.
int64_t RowGroups(int64_t rows, int64_t panels, int64_t threads) {
  int64_t groups = std::clamp<int64_t>(rows / kMinOwnRows, 1, threads);
  while (threads > 1 && panels * groups < 4 * threads && rows / (2 * groups) >= kMinSplitRows)
    groups *= 2;
  return groups;
}

// Rows `rows` of the product with a panel, `next` being read after it.
PanelProduct PanelOf(const ProductRows& product, const PackedWeight& weight, int64_t panel,
                     int64_t next, Range rows) {
  const int64_t element = weight.pairs() ? 2 : 4, column = panel * kPanelRows;
  return {.panel = weight.Panel(panel),
          .next = next < weight.panels() ? weight.Panel(next) : nullptr,
          .x = static_cast<const char*>(product.x) + rows.begin * product.x_stride * element,
          .x_stride = product.x_stride,
          .rows = rows.size(),
          .depth = weight.pairs() ? (weight.cols() + 1) / 2 : weight.cols(),
          .bias = product.bias == nullptr ? nullptr : product.bias + column,
          .out = product.out + rows.begin * product.out_stride + column,
          .out_stride = product.out_stride,
          .columns = std::min<int64_t>(kPanelRows, weight.rows() - column)};
}

// Calls task(panel, rows, worker) for all of [0, panels) with all rows.
template <typename Task>
void ShareOut(const ProductRows& product, const PackedWeight& weight, int64_t panels,
              ThreadPool& pool, Task task) {
  const int64_t rows = product.rows, groups = RowGroups(rows, panels, pool.threads());
  const int64_t block_rows = groups * BlockRows(weight.cols() * (weight.pairs() ? 2 : 4));
  const int64_t blocks = (rows + block_rows - 1) / block_rows;
  pool.ForRanges(panels * groups, 1, [&](Range pieces, int worker) {
    for (int64_t block = 0; block < blocks; ++block) {
      for (int64_t piece = pieces.begin; piece < pieces.end; ++piece) {
        const Range group = Split(rows, groups, piece / panels);
        const Range part = Split(group.size(), blocks, block);
        task(piece % panels, Range{group.begin + part.begin, group.begin + part.end}, worker);
      }
    }
  });
}

}  // namespace

void MultiplyPacked(const ProductRows& product, const PackedWeight& weight, PanelKernel kernel,
                    void (*activate)(int64_t n, float* inout), ThreadPool& pool) {
  ShareOut(product, weight, weight.panels(), pool, [&](int64_t panel, Range rows, int) {
    const int64_t most = activate == nullptr ? rows.size() : kTileRows;
    for (int64_t row = rows.begin; row < rows.end; row += most) {
      const Range some = {row, std::min(row + most, rows.end)};
      const PanelProduct part = PanelOf(product, weight, panel, panel + 1, some);
      kernel(part);
      for (int64_t r = 0; activate != nullptr && r < some.size(); ++r)
        activate(part.columns, part.out + r * part.out_stride);
    }
  });
}

void MultiplySiluPacked(const ProductRows& product, const PackedWeight& weight, PanelKernel kernel,
                        void (*silu_mul)(const float* gate, const float* up, int64_t n, float* out),
                        std::span<float> tiles, ThreadPool& pool) {
  const int64_t panels = weight.panels() / 2;
  constexpr int64_t kWidth = 2 * kPanelRows;
  ShareOut(product, weight, panels, pool, [&](int64_t panel, Range rows, int worker) {
    float* tile = tiles.data() + worker * kSiluTileFloats;
    for (int64_t row = rows.begin; row < rows.end; row += kTileRows) {
      const Range some = {row, std::min(row + kTileRows, rows.end)};
      for (const int64_t half : {0, 1}) {
        const int64_t next = half == 0 ? panel + panels : panel + 1;
        PanelProduct part = PanelOf(product, weight, panel + half * panels, next, some);
        part.out = tile + half * kPanelRows;
        part.out_stride = kWidth;
        kernel(part);
      }
      for (int64_t r = 0; r < some.size(); ++r)
        silu_mul(tile + r * kWidth, tile + r * kWidth + kPanelRows, kPanelRows,
                 product.out + (row + r) * product.out_stride + panel * kPanelRows);
    }
  });
}

}  // namespace penstock
