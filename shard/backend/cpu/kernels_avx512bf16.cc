#include <immintrin.h>

#include "shard/backend/cpu/kernel_table.h"

// Products with the bf16 dot instruction (AVX512-BF16): pairs of inputs are multiplied and added to
// an f32 sum with the instruction's own rounding (no denormals, round to nearest even), twice the
// rate of f32. One chain over the pairs from the first to the last, whatever the number of rows.

namespace penstock {
namespace {

constexpr int kTileRows = 12;
constexpr int64_t kPrefetchBytes = 4096;

inline __m512bh LoadPairs(const char* p) {
  return reinterpret_cast<__m512bh>(_mm512_loadu_si512(p));
}
inline __m512bh BroadcastPair(const char* p) {
  int32_t pair;
  __builtin_memcpy(&pair, p, sizeof(pair));
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
}

inline void StoreColumns(__m512 value, const float* bias, int64_t columns, float* out) {
  if (columns <= 0) return;
  const __mmask16 lanes =
      columns >= 16 ? __mmask16{0xffff} : static_cast<__mmask16>((1u << columns) - 1);
  if (bias != nullptr) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(lanes, bias));
  _mm512_mask_storeu_ps(out, lanes, value);
}

template <int kRows>
inline void MultiplyTile(const PanelProduct& p, const char* ahead, const char* x, float* out) {
  const char* panel = static_cast<const char*>(p.panel);
  const int64_t stride = p.x_stride * 2;  // bytes
  __m512 left[kRows], right[kRows];
  const char* base[(kRows + 2) / 3];
  for (int g = 0; g < (kRows + 2) / 3; ++g) base[g] = x + 3 * g * stride;
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) left[r] = right[r] = _mm512_setzero_ps();
  for (int64_t k = 0; k < p.depth; ++k) {
    __builtin_prefetch(ahead);
    __builtin_prefetch(ahead + 64);
    ahead += 128;
    const __m512bh w0 = LoadPairs(panel), w1 = LoadPairs(panel + 64);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const __m512bh value = BroadcastPair(base[r / 3] + (r % 3) * stride + 4 * k);
      left[r] = _mm512_dpbf16_ps(left[r], w0, value);
      right[r] = _mm512_dpbf16_ps(right[r], w1, value);
    }
    panel += 128;
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    StoreColumns(left[r], p.bias, p.columns, out + r * p.out_stride);
    StoreColumns(right[r], p.bias == nullptr ? nullptr : p.bias + 16, p.columns - 16,
                 out + r * p.out_stride + 16);
  }
}

template <int kRows>
inline void RunTile(int rows, const PanelProduct& p, const char* ahead, const char* x, float* out) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return RunTile<kRows - 1>(rows, p, ahead, x, out);
  }
  MultiplyTile<kRows>(p, ahead, x, out);
}

void MultiplyPanel(const PanelProduct& p) {
  const int64_t tiles = (p.rows + kTileRows - 1) / kTileRows;
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t row = p.rows * t / tiles;
    const int rows = static_cast<int>(p.rows * (t + 1) / tiles - row);
    const char* ahead = t == 0 || p.next == nullptr
                            ? static_cast<const char*>(p.panel) + kPrefetchBytes
                            : static_cast<const char*>(p.next);  // the panel is in cache by now
    RunTile<kTileRows>(rows, p, ahead, static_cast<const char*>(p.x) + row * p.x_stride * 2,
                       p.out + row * p.out_stride);
  }
}

void RoundRow(const float* x, int64_t n, BF16* out) {
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 lanes =
        n - i >= 16 ? __mmask16{0xffff} : static_cast<__mmask16>((1u << (n - i)) - 1);
    const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(lanes, x + i));
    _mm256_mask_storeu_epi16(out + i, lanes, reinterpret_cast<__m256i>(rounded));
  }
}

}  // namespace

constinit const Bf16DotKernels kAvx512Bf16DotKernels = {MultiplyPanel, RoundRow};

}  // namespace penstock
