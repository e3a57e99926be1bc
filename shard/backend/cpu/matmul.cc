#include "shard/backend/cpu/matmul.h"

#include <algorithm>

namespace penstock {
namespace {

// Rows that pass over all of a thread's panels before the next ones: their activations should stay
// in the shared cache while the panels, one after the other, stay in the core's own.
constexpr int64_t kBlockRows = 512;
// Below this many rows, splitting them between threads would read panels twice for nothing.
constexpr int64_t kMinSplitRows = 24;

// Into how many groups of rows, so that every thread gets about the same share of the pieces.
int64_t RowGroups(int64_t rows, int64_t panels, int64_t threads) {
  int64_t groups = 1;
  while (threads > 1 && panels * groups < 4 * threads && rows / (2 * groups) >= kMinSplitRows)
    groups *= 2;
  return groups;
}

}  // namespace

void MultiplyPacked(const ProductRows& product, const PackedWeight& weight,
                    void (*kernel)(const PanelProduct&), ThreadPool& pool) {
  const int64_t element = weight.pairs() ? 2 : 4;
  const int64_t depth = weight.pairs() ? (weight.cols() + 1) / 2 : weight.cols();
  const int64_t groups = RowGroups(product.rows, weight.panels(), pool.threads());
  const auto multiply = [&](int64_t panel, Range rows) {
    const int64_t column = panel * kPanelRows;
    kernel({.panel = weight.Panel(panel),
            .x = static_cast<const char*>(product.x) + rows.begin * product.x_stride * element,
            .x_stride = product.x_stride,
            .rows = rows.size(),
            .depth = depth,
            .bias = product.bias == nullptr ? nullptr : product.bias + column,
            .out = product.out + rows.begin * product.out_stride + column,
            .out_stride = product.out_stride,
            .columns = std::min<int64_t>(kPanelRows, weight.rows() - column)});
  };
  pool.ForRanges(weight.panels() * groups, 1, [&](Range pieces) {
    const int64_t blocks = (product.rows + groups * kBlockRows - 1) / (groups * kBlockRows);
    for (int64_t block = 0; block < blocks; ++block) {
      for (int64_t piece = pieces.begin; piece < pieces.end; ++piece) {
        const Range group = Split(product.rows, groups, piece % groups);
        const Range part = Split(group.size(), blocks, block);
        multiply(piece / groups, {group.begin + part.begin, group.begin + part.end});
      }
    }
  });
}

}  // namespace penstock
