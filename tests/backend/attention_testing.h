#pragma once

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "tests/backend/cpu_testing.h"

namespace penstock {

// Runs whole sequences through RopeAndCache and Attention as a scheduler would: in chunks, several
// sequences per step, blocks anywhere in the cache. What comes out per token must not depend on any
// of that.
struct AttentionSchedule {
  int chunk = 1 << 20;         // most tokens of a sequence per step
  int sequences_per_step = 8;  // others wait
  uint32_t block_seed = 1;     // which blocks a sequence gets
  int32_t block_size = 16;
};

struct AttentionModel {
  AttentionShape shape;
  DType dtype = DType::kF16;
  int32_t rotary_dim = 0;  // 0: the whole head
  int64_t q_cols() const { return int64_t{shape.heads} * shape.head_dim; }
  int64_t qkv_cols() const { return q_cols() + 2 * int64_t{shape.kv_heads} * shape.head_dim; }
  int64_t rotary() const { return rotary_dim > 0 ? rotary_dim : shape.head_dim; }
};

struct RopeTables {
  RopeTables(int64_t positions, int64_t rotary_dim)
      : cos(positions, rotary_dim / 2), sin(positions, rotary_dim / 2) {
    for (int64_t p = 0; p < positions; ++p)
      for (int64_t i = 0; i < rotary_dim / 2; ++i) {
        const double angle =
            static_cast<double>(p) *
            std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim));
        cos.at(p, i) = static_cast<float>(std::cos(angle));
        sin.at(p, i) = static_cast<float>(std::sin(angle));
      }
  }
  RopeTable view() { return {cos.view, sin.view}; }
  Floats cos, sin;
};

// A StepBatch as a backend on the host sees it.
struct TestBatch {
  std::vector<int32_t> positions, slots, seq_begin{0}, context_lens, block_begin{0}, blocks;
  static Matrix Row(std::vector<int32_t>& v) {
    const int64_t size = static_cast<int64_t>(v.size());
    return {v.data(), 1, size, size, DType::kI32};
  }
  DeviceBatch view() {
    return {.tokens = {},
            .positions = Row(positions),
            .slots = Row(slots),
            .seq_begin = Row(seq_begin),
            .context_lens = Row(context_lens),
            .block_begin = Row(block_begin),
            .blocks = Row(blocks),
            .sample_rows = {}};
  }
  void Add(int begin, int end, const std::vector<int32_t>& table, int32_t block_size) {
    for (int p = begin; p < end; ++p) {
      positions.push_back(p);
      slots.push_back(table[static_cast<size_t>(p / block_size)] * block_size + p % block_size);
    }
    seq_begin.push_back(static_cast<int32_t>(positions.size()));
    context_lens.push_back(end);
    blocks.insert(blocks.end(), table.begin(), table.end());
    block_begin.push_back(static_cast<int32_t>(blocks.size()));
  }
};

using Sequence = std::vector<float>;  // [tokens, qkv_cols] before the rotation

inline std::vector<Sequence> RandomSequences(const AttentionModel& model,
                                             const std::vector<int>& lengths, uint32_t seed) {
  std::vector<Sequence> out;
  for (int length : lengths) out.push_back(RandomFloats(length * model.qkv_cols(), seed++));
  return out;
}

// Blocks for sequences of these lengths, anywhere in a cache of `blocks`.
struct BlockTables {
  BlockTables(const std::vector<int>& lengths, const AttentionSchedule& schedule) {
    for (int length : lengths)
      blocks += static_cast<int32_t>(
          tables.emplace_back(static_cast<size_t>(length / schedule.block_size + 1)).size());
    std::vector<int32_t> ids(static_cast<size_t>(blocks));
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), std::mt19937(schedule.block_seed));
    for (auto& table : tables)
      for (int32_t& id : table) {
        id = ids.back();
        ids.pop_back();
      }
  }
  std::vector<std::vector<int32_t>> tables;
  int32_t blocks = 3;
};

// One step: what RopeAndCache and Attention make of the batch's rows, [tokens, q_cols].
inline std::vector<float> RunStep(Backend& backend, const AttentionModel& model, TestBatch& batch,
                                  std::vector<float>& qkv, RopeTables& rope, KvCache& cache) {
  const int64_t tokens = static_cast<int64_t>(batch.positions.size());
  const Matrix rows = {qkv.data(), tokens, model.qkv_cols(), model.qkv_cols()};
  Floats mixed(tokens, model.q_cols(), 2);
  backend.attention().RopeAndCache(rows, batch.view(), rope.view(), model.shape, cache);
  backend.attention().Attention(rows.Cols(0, model.q_cols()), cache, batch.view(), model.shape,
                                mixed.view);
  EXPECT_TRUE(backend.Sync().ok()) << backend.Sync();
  return mixed.Packed();
}

// Attention's output of every sequence, [tokens, q_cols].
inline std::vector<std::vector<float>> RunSequences(Backend& backend, const AttentionModel& model,
                                                    const std::vector<Sequence>& sequences,
                                                    const AttentionSchedule& schedule) {
  const int64_t cols = model.qkv_cols(), q_cols = model.q_cols();
  std::vector<int> lengths;
  for (const Sequence& s : sequences)
    lengths.push_back(static_cast<int>(static_cast<int64_t>(s.size()) / cols));
  const BlockTables layout(lengths, schedule);
  auto cache = *backend.MakeKvCache({.blocks = layout.blocks,
                                     .block_size = schedule.block_size,
                                     .kv_heads = model.shape.kv_heads,
                                     .head_dim = model.shape.head_dim,
                                     .dtype = model.dtype});
  RopeTables rope(*std::max_element(lengths.begin(), lengths.end()), model.rotary());
  std::vector<int> done(sequences.size());
  std::vector<std::vector<float>> out(sequences.size());
  while (done != lengths) {
    TestBatch batch;
    std::vector<size_t> members;
    std::vector<float> qkv;
    for (size_t s = 0; s < sequences.size(); ++s) {
      const bool full = members.size() == static_cast<size_t>(schedule.sequences_per_step);
      if (done[s] == lengths[s] || full) continue;
      const int end = std::min(done[s] + schedule.chunk, lengths[s]);
      batch.Add(done[s], end, layout.tables[s], schedule.block_size);
      qkv.insert(qkv.end(), sequences[s].begin() + done[s] * cols,
                 sequences[s].begin() + end * cols);
      done[s] = end;
      members.push_back(s);
    }
    const std::vector<float> mixed = RunStep(backend, model, batch, qkv, rope, *cache);
    for (size_t i = 0; i < members.size(); ++i)
      out[members[i]].insert(out[members[i]].end(), mixed.begin() + batch.seq_begin[i] * q_cols,
                             mixed.begin() + batch.seq_begin[i + 1] * q_cols);
  }
  return out;
}

}  // namespace penstock
