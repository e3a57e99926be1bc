#include "shard/backend/cpu/matmul.h"

#include <algorithm>

namespace penstock {
namespace {

// Rows that pass over all of a thread's panels before the next ones: their activations should stay
// in the shared cache while the panels, one after the other, stay in the core's own.
constexpr int64_t kBlockRows = 512;
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
void ShareOut(int64_t rows, int64_t panels, ThreadPool& pool, Task task) {
  const int64_t groups = RowGroups(rows, panels, pool.threads());
  const int64_t blocks = (rows + groups * kBlockRows - 1) / (groups * kBlockRows);
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
                    ThreadPool& pool) {
  ShareOut(product.rows, weight.panels(), pool, [&](int64_t panel, Range rows, int) {
    kernel(PanelOf(product, weight, panel, panel + 1, rows));
  });
}

void MultiplySiluPacked(const ProductRows& product, const PackedWeight& weight, PanelKernel kernel,
                        void (*silu_mul)(const float* gate, const float* up, int64_t n, float* out),
                        std::span<float> tiles, ThreadPool& pool) {
  const int64_t panels = weight.panels() / 2;
  constexpr int64_t kWidth = 2 * kPanelRows;
  ShareOut(product.rows, panels, pool, [&](int64_t panel, Range rows, int worker) {
    float* tile = tiles.data() + worker * kSiluTileFloats;
    for (int64_t row = rows.begin; row < rows.end; row += kSiluTileRows) {
      const Range some = {row, std::min(row + kSiluTileRows, rows.end)};
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
