#pragma once

#include <cstdint>
#include <vector>

#include "shard/backend/cpu/cpu_context.h"
#include "shard/backend/cpu/memory.h"
#include "shard/backend/ops.h"

namespace penstock {

// Attention without a cache, of every row to all rows of its own sequence. The work is cut into
// items: the rows (or some of them) of one head of one sequence. An item's thread first lays the
// head's keys and values out in the tiles that the kernels of the paged attention read, then passes
// over them with kAttendRows rows at a time. Chunks of kChunkTokens are merged in ascending order,
// so a row's bits depend on its own sequence alone.
class SelfAttention {
 public:
  explicit SelfAttention(CpuContext& context) : context_(context) {}

  // As EncoderOps::Attention.
  void Run(Matrix qkv, const DeviceBatch& batch, const AttentionShape& shape, Matrix out);

 private:
  struct Item {
    int32_t head = 0;             // local
    int64_t begin = 0, end = 0;   // of the sequence, as rows
    int64_t first = 0, last = 0;  // of the item: rows [first, last)
  };
  // The operands of one Run().
  struct Call {
    Matrix qkv, out;
    const AttentionShape* shape;
    int64_t padded_dim;
    int64_t part_size;    // floats: padded_dim, then the softmax's maximum and sum, padded
    int64_t tile_floats;  // of kTileTokens keys and values
    int64_t tiles;        // of the longest sequence
    int64_t scratch_floats() const {
      return kAttendRows * (kChunkTokens + 2 * part_size) + tiles * tile_floats;
    }
  };
  // One thread's memory, a window of memory_.
  struct Scratch {
    float* scores;   // [kAttendRows, kChunkTokens]
    float* running;  // [kAttendRows, part_size]
    float* part;     // likewise, of the chunk
    float* tiles;
  };

  bool Check(const Matrix& qkv, const DeviceBatch& batch, const AttentionShape& shape,
             const Matrix& out);
  Call MakeCall(const Matrix& qkv, const DeviceBatch& batch, const AttentionShape& shape,
                const Matrix& out) const;
  void BuildItems(const DeviceBatch& batch, const AttentionShape& shape);
  bool Reserve(const Call& call);
  Scratch ScratchOf(const Call& call, int worker);

  void RunItem(const Call& call, const Item& item, const Scratch& scratch) const;
  void PackKeysAndValues(const Call& call, const Item& item, float* tiles) const;
  // Up to kAttendRows rows from `row` on.
  void AttendRows(const Call& call, const Item& item, int64_t row, const Scratch& scratch) const;

  CpuContext& context_;
  std::vector<Item> items_;
  HostMemory memory_;     // of all threads
  int64_t reserved_ = 0;  // floats in memory_
};

}  // namespace penstock
