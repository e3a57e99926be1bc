#include <vector>

#include "shard/backend/cpu/isa.h"
#include "shard/backend/cpu/limit_loops.h"

namespace penstock {

// A product whose operands stay in the first level cache, for want of a loop of its own.
double RunFp32Loop(int64_t rounds) {
  constexpr int64_t kRows = 12, kDepth = 64;
  std::vector<float> panel(kDepth * kPanelRows, 0.5f), x(kRows * kDepth, 0.5f);
  std::vector<float> out(kRows * kPanelRows);
  const PanelProduct product = {panel.data(), nullptr, x.data(),   kDepth,     kRows,
                                kDepth,       nullptr, out.data(), kPanelRows, kPanelRows};
  const int64_t repeats = rounds / kDepth + 1;
  for (int64_t i = 0; i < repeats; ++i)
    AvailableIsas().front().kernels->multiply_panel.f32(product);
  return 2.0 * static_cast<double>(repeats) * kRows * kDepth * kPanelRows;
}

double RunBf16Loop(int64_t) { return 0; }
double RunInt8Loop(int64_t) { return 0; }

}  // namespace penstock
