#pragma once

#include <cstdint>

#include "shard/backend/cpu/kernel_table.h"

// Paged attention over one chunk of tokens, for several rows at once. Include after a vec_*.h and
// kernels_elementwise.h.
//
// A row's score with a token is one chain over the head's dimensions; its sums over tokens run in
// ascending order over the tokens it sees and no others. So nothing depends on the rows beside it.

namespace penstock {
namespace {

inline int64_t PaddedDim(int64_t head_dim) { return (head_dim + 15) / 16 * 16; }

// The tiles that tokens [begin, end) touch.
struct TileRange {
  int begin, end;
};
inline TileRange TilesOf(int begin, int end) {
  return {begin / kTileTokens, (end + kTileTokens - 1) / kTileTokens};
}

// Vectors side by side, at most `most` and a power of two, whose accumulators for `rows` rows fit
// in the registers together with one operand of each and one more.
constexpr int VectorsBeside(int rows, int most) {
  int vectors = most;
  while (vectors > 1 && (rows + 1) * vectors + 1 > kRegisters) vectors /= 2;
  return vectors;
}

// Into the first level cache, a chunk ahead.
inline void FetchLine(const void* line) { __builtin_prefetch(line, 0, 3); }

// Scores of kRows rows from `row` on with kTiles tiles from `tile` on. Several tiles at once when
// there are few rows: independent chains hide the latency of the multiply-adds.
template <typename T, int kRows, int kTiles, bool kFetch>
inline void ScoreTiles(const ChunkAttention& c, int row, int tile) {
  Vec16 sum[kRows][kTiles];
  const T* keys[kTiles];
#pragma GCC unroll 8
  for (int t = 0; t < kTiles; ++t) {
    keys[t] = static_cast<const T*>(c.keys[tile + t]);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) sum[r][t] = Broadcast(0.0f);
  }
  constexpr int64_t kDimsPerLine = 64 / (kTileTokens * sizeof(T));
  for (int64_t d = 0; d < c.head_dim; ++d) {
    if constexpr (kFetch) {
      if (d % kDimsPerLine == 0) {
#pragma GCC unroll 8
        for (int t = 0; t < kTiles; ++t)
          FetchLine(static_cast<const T*>(c.next_keys[tile + t]) + d * kTileTokens);
      }
    }
    Vec16 key[kTiles];
#pragma GCC unroll 8
    for (int t = 0; t < kTiles; ++t) key[t] = Load(keys[t] + d * kTileTokens);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const Vec16 q = Broadcast(c.q[row + r][d]);
#pragma GCC unroll 8
      for (int t = 0; t < kTiles; ++t) sum[r][t] = Fma(key[t], q, sum[r][t]);
    }
  }
  const Vec16 scale = Broadcast(c.scale);
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int t = 0; t < kTiles; ++t)
      Store(Mul(sum[r][t], scale), c.scores + (row + r) * kChunkTokens + (tile + t) * kTileTokens);
}

template <typename T, int kRows, bool kFetch>
inline void ScoreRows(const ChunkAttention& c, int row, TileRange tiles) {
  constexpr int kTiles = VectorsBeside(kRows, kChunkTiles);
  int tile = tiles.begin;
  for (; tile + kTiles <= tiles.end; tile += kTiles)
    ScoreTiles<T, kRows, kTiles, kFetch>(c, row, tile);
  for (; tile < tiles.end; ++tile) ScoreTiles<T, kRows, 1, kFetch>(c, row, tile);
}

// The part's tail: the largest score, then the sum of exp(score - max).
inline float* TailOf(const ChunkAttention& c, int row) {
  return c.part[row] + PaddedDim(c.head_dim);
}

// Scores outside of what the row sees become -inf; the largest goes to the tail.
inline void FindMax(const ChunkAttention& c, int row) {
  float* scores = c.scores + row * kChunkTokens;
  const int begin = c.begin[row], end = c.end[row];
  const TileRange tiles = TilesOf(begin, end);
  const float lowest = -__builtin_inff();
  Vec16 highest = Broadcast(lowest);
  for (int t = tiles.begin; t < tiles.end; ++t) {
    const int first = t * kTileTokens;
    Vec16 v = Load(scores + first);
    if (first < begin || first + kTileTokens > end) {
      v = KeepRange(v, first < begin ? begin - first : 0,
                    first + kTileTokens > end ? end - first : kTileTokens, lowest);
      Store(v, scores + first);
    }
    highest = Max(highest, v);
  }
  TailOf(c, row)[0] = MaxLane(highest);
}

// Turns a row's scores into exp(score - max); their sum goes to the tail.
inline void ExponentiateRow(const ChunkAttention& c, int row) {
  float* scores = c.scores + row * kChunkTokens;
  const TileRange tiles = TilesOf(c.begin[row], c.end[row]);
  const Vec16 shift = Broadcast(TailOf(c, row)[0]);
  Vec16 sum = Broadcast(0.0f);
  for (int t = tiles.begin; t < tiles.end; ++t) {
    const Vec16 weight = Exp(Sub(Load(scores + t * kTileTokens), shift));
    Store(weight, scores + t * kTileTokens);
    sum = Add(sum, weight);
  }
  TailOf(c, row)[1] = SumLanes(sum);
}

// part[row + r] += weights * values over tokens [begin, end), 16 * kVecs dimensions from `dim` on.
template <typename T, int kRows, int kVecs, bool kFetch>
inline void MixTokens(const ChunkAttention& c, int row, int begin, int end, int64_t dim) {
  const int64_t padded = PaddedDim(c.head_dim);
  Vec16 sum[kRows][kVecs];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) sum[r][v] = Load(c.part[row + r] + dim + 16 * v);
  for (int token = begin; token < end;) {
    const int tile = token / kTileTokens;
    const int tile_end = (tile + 1) * kTileTokens < end ? (tile + 1) * kTileTokens : end;
    const T* value = static_cast<const T*>(c.values[tile]) + (token % kTileTokens) * padded + dim;
    const T* next =
        kFetch ? static_cast<const T*>(c.next_values[tile]) + (token % kTileTokens) * padded + dim
               : nullptr;
    for (; token < tile_end; ++token, value += padded) {
      if constexpr (kFetch) {
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; v += static_cast<int>(4 / sizeof(T))) FetchLine(next + 16 * v);
        next += padded;
      }
      Vec16 column[kVecs];
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) column[v] = Load(value + 16 * v);
#pragma GCC unroll 12
      for (int r = 0; r < kRows; ++r) {
        const Vec16 weight = Broadcast(c.scores[(row + r) * kChunkTokens + token]);
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; ++v) sum[r][v] = Fma(column[v], weight, sum[r][v]);
      }
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) Store(sum[r][v], c.part[row + r] + dim + 16 * v);
}

template <typename T, int kRows, bool kFetch>
inline void MixRange(const ChunkAttention& c, int row, int begin, int end) {
  if (begin >= end) return;
  constexpr int kVecs = VectorsBeside(kRows, 4);
  const int64_t padded = PaddedDim(c.head_dim);
  int64_t dim = 0;
  for (; dim + 16 * kVecs <= padded; dim += 16 * kVecs)
    MixTokens<T, kRows, kVecs, kFetch>(c, row, begin, end, dim);
  for (; dim < padded; dim += 16) MixTokens<T, kRows, 1, kFetch>(c, row, begin, end, dim);
}

// The tokens that all rows see are read once for all of them, those before and after row by row.
template <typename T, int kRows, bool kFetch>
inline void MixRows(const ChunkAttention& c, int row) {
  int joint_begin = c.begin[row], joint_end = c.end[row];
  for (int r = row + 1; r < row + kRows; ++r) {
    joint_begin = c.begin[r] > joint_begin ? c.begin[r] : joint_begin;
    joint_end = c.end[r] < joint_end ? c.end[r] : joint_end;
  }
  if (joint_begin >= joint_end) {
    for (int r = row; r < row + kRows; ++r) MixRange<T, 1, false>(c, r, c.begin[r], c.end[r]);
    return;
  }
  for (int r = row; r < row + kRows; ++r) MixRange<T, 1, false>(c, r, c.begin[r], joint_begin);
  MixRange<T, kRows, kFetch>(c, row, joint_begin, joint_end);
  for (int r = row; r < row + kRows; ++r) MixRange<T, 1, false>(c, r, joint_end, c.end[r]);
}

constexpr int kRowsAtOnce = kRegisters < 2 * kAttendRows ? 4 : kAttendRows;

template <typename T, int kRows, bool kFetch>
inline void AttendRows(const ChunkAttention& c, int row, int rows) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return AttendRows<T, kRows - 1, kFetch>(c, row, rows);
  }
  int begin = c.begin[row], end = c.end[row];
  for (int r = row + 1; r < row + kRows; ++r) {
    begin = c.begin[r] < begin ? c.begin[r] : begin;
    end = c.end[r] > end ? c.end[r] : end;
  }
  ScoreRows<T, kRows, kFetch>(c, row, TilesOf(begin, end));
  // Row by row each, so that one row's chain from lane to lane overlaps with the next's.
  for (int r = row; r < row + kRows; ++r) FindMax(c, r);
  for (int r = row; r < row + kRows; ++r) {
    ExponentiateRow(c, r);
    for (int64_t d = 0; d < c.head_dim; d += 16) Store(Broadcast(0.0f), c.part[r] + d);
  }
  MixRows<T, kRows, kFetch>(c, row);
}

template <typename T>
void AttendChunk(const ChunkAttention& c) {
  for (int row = 0; row < c.rows; row += kRowsAtOnce) {
    const int rows = c.rows - row < kRowsAtOnce ? c.rows - row : kRowsAtOnce;
    if (c.fetches && row == 0) {
      AttendRows<T, kRowsAtOnce, true>(c, row, rows);
    } else {
      AttendRows<T, kRowsAtOnce, false>(c, row, rows);
    }
  }
}

void MergePart(const float* from, int64_t padded_dim, float* into) {
  const float* from_tail = from + padded_dim;
  float* into_tail = into + padded_dim;
  if (from_tail[1] == 0) return;
  if (into_tail[1] == 0) {
    for (int64_t d = 0; d < padded_dim; d += 16) Store(Load(from + d), into + d);
    into_tail[0] = from_tail[0];
    into_tail[1] = from_tail[1];
    return;
  }
  const Vec16 a = Broadcast(into_tail[0]), b = Broadcast(from_tail[0]);
  const Vec16 max = Max(a, b);
  const Vec16 keep = Exp(Sub(a, max)), gain = Exp(Sub(b, max));
  for (int64_t d = 0; d < padded_dim; d += 16)
    Store(Fma(Load(into + d), keep, Mul(Load(from + d), gain)), into + d);
  const Vec16 sum = Fma(Broadcast(into_tail[1]), keep, Mul(Broadcast(from_tail[1]), gain));
  StoreFirst(max, 1, into_tail);
  StoreFirst(sum, 1, into_tail + 1);
}

void FinishPart(const float* part, int64_t head_dim, float* out) {
  const float sum = part[PaddedDim(head_dim) + 1];
  const Vec16 inverse = Broadcast(sum == 0 ? 0.0f : 1.0f / sum);
  ForEachVector(head_dim, [=](int64_t d, auto io) {
    io.Put(sum == 0 ? inverse : Mul(Load(part + d), inverse), out + d);
  });
}

template <typename T>
inline void StoreKey(Vec16 v, int64_t n, int lane, T* keys) {
  T narrow[16];
  Store(v, narrow);
  for (int64_t i = 0; i < n; ++i) keys[i * kTileTokens + lane] = narrow[i];
}
template <typename T>
inline void StoreValue(Vec16 v, int64_t n, T* value) {
  T narrow[16];
  Store(v, narrow);
  for (int64_t i = 0; i < n; ++i) value[i] = narrow[i];
}

template <typename T>
void WriteKv(const float* key, const float* value, int64_t head_dim, int lane, void* keys,
             void* values) {
  T* key_tile = static_cast<T*>(keys);
  T* value_row = static_cast<T*>(values) + lane * PaddedDim(head_dim);
  ForEachVector(head_dim, [=](int64_t d, auto io) {
    const int64_t n = head_dim - d < 16 ? head_dim - d : 16;
    StoreKey(io.Get(key + d), n, lane, key_tile + d * kTileTokens);
    StoreValue(io.Get(value + d), n, value_row + d);
  });
}

}  // namespace
}  // namespace penstock
