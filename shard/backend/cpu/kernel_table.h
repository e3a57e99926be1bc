#pragma once

#include <cstdint>

// What a translation unit of kernels exports: plain functions on plain memory.
//
// The kernels are written once (kernels_*.h) over a vector of 16 floats (vec_*.h) and compiled once
// per instruction set. Every instruction set gives the same bits: multiply-adds are fused where the
// source says so and nowhere else, sums of 16 lanes are combined in one fixed tree, exp is one
// polynomial, and square roots and divisions are the correctly rounded ones.
//
// This header and whatever a kernel file includes must not define anything the linker could share
// between translation units (inline functions, templates of the standard library): it would pick
// one copy for all, maybe the one with instructions that this CPU lacks.

namespace penstock {

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

// Weights are packed in panels of this many output rows, the last one padded with zeros:
// panel[k * 32 + output].
constexpr int kPanelRows = 32;

// Keys and values are kept in tiles of this many tokens: keys[d * 16 + token] (so that a score
// needs no sum over lanes), values[token * padded_dim + d], padded_dim a multiple of 16.
constexpr int kTileTokens = 16;
// The softmax is split at multiples of this position and merged in ascending order.
constexpr int kChunkTokens = 128;
constexpr int kChunkTiles = kChunkTokens / kTileTokens;
// Rows (tokens times query heads of one KV head) that share one pass over the keys and values.
constexpr int kAttendRows = 12;

// out[m][n] = sum over k of x[m][k] * panel[k][n], one fused chain over k from 0, plus bias[n].
struct PanelProduct {
  const void* panel;
  const void* next;  // the panel that the thread reads after this one, to be fetched; null: none
  const void* x;
  int64_t x_stride;  // elements
  int64_t rows;
  int64_t depth;      // inputs; pairs of inputs for the bf16 dot product
  const float* bias;  // [columns], null: none
  float* out;
  int64_t out_stride;
  int64_t columns;  // 1..32, those that exist
};

// One chunk's share of a softmax. Row r sees the chunk's tokens [begin[r], end[r]), at least one.
// Its part is padded_dim sums of exp(score - max) * value, then max, then the sum of
// exp(score - max); a part whose last number is 0 is empty.
struct ChunkAttention {
  int32_t rows;  // 1..kAttendRows
  int64_t head_dim;
  float scale;
  const float* q[kAttendRows];  // [head_dim]
  int32_t begin[kAttendRows];
  int32_t end[kAttendRows];
  const void* keys[kChunkTiles];  // only the tiles that some row sees are read
  const void* values[kChunkTiles];
  // Where set, for each of those tiles one that will be read soon, to be fetched from memory.
  bool fetches = false;
  const void* next_keys[kChunkTiles];
  const void* next_values[kChunkTiles];
  float* scores;             // scratch, [kAttendRows * kChunkTokens]
  float* part[kAttendRows];  // out, [padded_dim + 2]
};

// weights[i] = exp((logits[i] - highest) * scale), relative error below 2e-7; 0 where it is not in
// [least, 1]: of a logit above the highest, an infinite one or NaN. Of every kWeightBlock of them
// the sum (16 lanes, then one fixed tree) and the largest.
constexpr int kWeightBlock = 256;
struct LogitWeights {
  const float* logits;
  int64_t count;
  float highest, scale;
  float least;     // 0: all
  float* weights;  // [count]
  float* sums;     // [count / kWeightBlock, rounded up]
  float* most;     // likewise
};

// Function per storage type of weights or caches: f32, f16, bf16.
template <typename Function>
struct PerDType {
  Function* f32;
  Function* f16;
  Function* bf16;
};

struct KernelTable {
  const char* isa;
  PerDType<void(const PanelProduct&)> multiply_panel;

  // out = x / sqrt(mean(x^2) + eps) * weight, n numbers; out may be x.
  void (*rms_norm)(const float* x, const float* weight, float eps, int64_t n, float* out);
  // residual += delta first.
  void (*add_rms_norm)(const float* delta, const float* weight, float eps, int64_t n,
                       float* residual, float* out);
  void (*add)(const float* delta, int64_t n, float* inout);
  // out = gate / (1 + exp(-gate)) * up
  void (*silu_mul)(const float* gate, const float* up, int64_t n, float* out);
  // Rotates the pairs (i, i + half) for i < half.
  void (*rotate)(const float* cos, const float* sin, int64_t half, float* inout);
  float (*highest_finite)(const float* logits, int64_t n);  // -infinity when none is finite
  void (*weigh)(const LogitWeights&);

  // By Activation, each in place over n numbers.
  void (*gelu)(int64_t n, float* inout);
  void (*gelu_tanh)(int64_t n, float* inout);
  void (*relu)(int64_t n, float* inout);
  void (*tanh)(int64_t n, float* inout);
  // out = (x - mean) / sqrt(variance + eps) * weight + bias, n numbers; out may be x.
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float eps, int64_t n,
                     float* out);
  // inout += delta first; the result is in inout.
  void (*add_layer_norm)(const float* delta, const float* weight, const float* bias, float eps,
                         int64_t n, float* inout);
  void (*mean_rows)(const float* x, int64_t stride, int64_t rows, int64_t n, float* out);
  void (*normalize_row)(int64_t n, float* inout);  // to length 1

  // Writes one token's key and value as lane `lane` of a tile.
  PerDType<void(const float* key, const float* value, int64_t head_dim, int lane, void* keys,
                void* values)>
      write_kv;
  PerDType<void(const ChunkAttention&)> attend_chunk;
  // Online softmax (Milakov and Gimelshein, 2018): adds the part `from` to the part `into`.
  void (*merge_part)(const float* from, int64_t padded_dim, float* into);
  // out = part / its sum, head_dim numbers; zeros for an empty part.
  void (*finish_part)(const float* part, int64_t head_dim, float* out);
};

// The bf16 dot product, a compute mode of its own: other bits than f32.
struct Bf16DotKernels {
  // The panel is [depth][32][2] bf16 and x [rows][depth][2] bf16.
  void (*multiply_panel)(const PanelProduct&);
  // Rounds n numbers to nearest even.
  void (*round_row)(const float* x, int64_t n, BF16* out);
};

extern const KernelTable kScalarKernels;
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;
extern const KernelTable kNeonKernels;
extern const Bf16DotKernels kAvx512Bf16DotKernels;

}  // namespace penstock
