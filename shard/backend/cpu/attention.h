#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "shard/backend/cpu/cpu_context.h"
#include "shard/backend/cpu/kv_cache.h"
#include "shard/backend/ops.h"

namespace penstock {

// Up to kAttendRows rows, tokens times query heads of one KV head of one sequence, that pass over
// the cache together.
struct AttentionItem {
  int32_t seq = 0;
  int32_t kv_head = 0;
  int32_t head = 0, heads = 0;  // query heads, local
  int64_t row = 0;
  int32_t tokens = 0;
  int64_t first_key = 0, last_key = 0;     // that some row sees
  int64_t chunk_begin = 0, chunk_end = 0;  // likewise
  int64_t cost = 0;                        // of the items before it
  int64_t parts = -1;                      // several pieces: where its parts are kept
  int32_t rows() const { return heads * tokens; }
};

// Paged attention on the CPU. The work is a sequence of (item, chunk of 128 positions) pairs, cut
// into contiguous pieces of about equal cost. A piece's thread merges an item's chunks in ascending
// order as it goes; of an item that several pieces share the chunks' parts are kept and merged in
// the same order afterwards, which gives the same bits.
class CpuAttention : public AttentionOps {
 public:
  explicit CpuAttention(CpuContext& context) : context_(context) {}

  void RopeAndCache(Matrix qkv, const DeviceBatch& batch, const RopeTable& rope,
                    const AttentionShape& shape, KvCache& cache) override;
  void Attention(Matrix q, const KvCache& cache, const DeviceBatch& batch,
                 const AttentionShape& shape, Matrix out) override;

 private:
  // The operands of one Attention() call.
  struct Call {
    Matrix q, out;
    const CpuKvCache* cache;
    const DeviceBatch* batch;
    const AttentionShape* shape;
    int64_t part_size;  // floats: padded_dim + 16
  };
  // A chunk of an item, as pieces go through them.
  struct Place {
    const AttentionItem* item = nullptr;
    int64_t chunk = 0;
  };
  // One thread's memory.
  struct Scratch {
    std::vector<Place> places;  // of its piece
    std::vector<float> scores;  // [kAttendRows, kChunkTokens]
    std::vector<float> parts;   // [2, kAttendRows, part_size]: the running one, the chunk's
  };

  bool CheckShape(const AttentionShape& shape, const CpuKvCache* cache, absl::string_view op);
  bool CheckBatch(const DeviceBatch& batch, int64_t tokens, absl::string_view op);
  bool CheckSequence(const Call& call, int64_t seq);
  bool CheckRope(const Matrix& qkv, const DeviceBatch& batch, const RopeTable& rope,
                 const AttentionShape& shape, const CpuKvCache& cache);

  void BuildItems(const Call& call);
  void AddSequenceItems(const Call& call, int32_t seq);
  // Finds the items that pieces share and gives their parts a place.
  void PlaceSharedParts(const Call& call);
  void Reserve(const Call& call);

  class TileStream;
  // The cached keys of the tile with this token; the values are behind them.
  static const std::byte* TileKeys(const Call& call, const AttentionItem& item, int64_t token);

  void ListPlaces(int64_t piece, std::vector<Place>* places) const;
  void RunPiece(const Call& call, int64_t piece, int worker);
  // Chunks that follow one another, of one item.
  void RunItem(const Call& call, std::span<const Place> chunks, TileStream& ahead,
               Scratch& scratch);
  void AttendItemChunk(const Call& call, Place place, TileStream& ahead, float* scores,
                       float* parts);
  void MergeShared(const Call& call, const AttentionItem& item, Scratch& scratch);
  void FinishItem(const Call& call, const AttentionItem& item, const float* parts);

  CpuContext& context_;
  std::vector<AttentionItem> items_;
  int64_t total_cost_ = 0;
  int64_t pieces_ = 0;
  std::vector<float> shared_parts_;
  std::vector<Scratch> scratch_;  // per worker
};

}  // namespace penstock
