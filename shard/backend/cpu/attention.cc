#include "shard/backend/cpu/attention.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace penstock {
namespace {

constexpr int64_t kPiecesPerThread = 2;

// Of the keys a row at `position` sees, the first.
int64_t FirstKey(int64_t position, int32_t window) {
  return window > 0 ? std::max<int64_t>(0, position - window + 1) : 0;
}

// Time of one chunk of an item: reading the keys and values, then arithmetic per row.
int64_t ChunkCost(const AttentionItem& item) { return 3 + item.rows(); }

int64_t Chunks(const AttentionItem& item) { return item.chunk_end - item.chunk_begin; }

// Local query heads that read local KV head `kv`.
Range HeadsOf(const AttentionShape& shape, int32_t kv) {
  const int64_t before = shape.head_begin % shape.group;  // heads of the first group elsewhere
  return {std::max<int64_t>(0, int64_t{kv} * shape.group - before),
          std::min<int64_t>(shape.heads, (int64_t{kv} + 1) * shape.group - before)};
}

}  // namespace

void CpuAttention::Attention(Matrix q, const KvCache& cache, const DeviceBatch& batch,
                             const AttentionShape& shape, Matrix out) {
  const auto* paged = dynamic_cast<const CpuKvCache*>(&cache);
  const int64_t cols = int64_t{shape.heads} * shape.head_dim;
  if (!CheckShape(shape, paged, "Attention") ||
      !context_.CheckMatrix(q, out.rows, cols, DType::kF32, "Attention", "q") ||
      !context_.CheckMatrix(out, q.rows, cols, DType::kF32, "Attention", "out") ||
      !CheckBatch(batch, q.rows, "Attention"))
    return;
  const Call call = {q, out, paged, &batch, &shape, paged->padded_dim() + 16};
  for (int64_t s = 0; s < batch.seqs(); ++s)
    if (!CheckSequence(call, s)) return;
  BuildItems(call);
  PlaceSharedParts(call);
  Reserve(call);
  context_.pool->Run(pieces_, [&](int64_t piece, int worker) { RunPiece(call, piece, worker); });
  for (const AttentionItem& item : items_)
    if (item.parts >= 0) MergeShared(call, item, scratch_[0]);
}

void CpuAttention::BuildItems(const Call& call) {
  items_.clear();
  for (int32_t seq = 0; seq < call.batch->seqs(); ++seq) AddSequenceItems(call, seq);
  total_cost_ = 0;
  int64_t chunks = 0;
  for (AttentionItem& item : items_) {
    item.cost = total_cost_;
    total_cost_ += Chunks(item) * ChunkCost(item);
    chunks += Chunks(item);
  }
  const int64_t threads = context_.pool->threads();
  pieces_ = threads == 1 ? 1 : std::min(chunks, threads * kPiecesPerThread);
}

// KV head by KV head, so that a head's keys and values stay in cache between its items.
void CpuAttention::AddSequenceItems(const Call& call, int32_t seq) {
  const int32_t* seq_begin = call.batch->seq_begin.I32();
  const int32_t* positions = call.batch->positions.I32();
  for (int32_t kv = 0; kv < call.shape->kv_heads; ++kv) {
    const Range group = HeadsOf(*call.shape, kv);
    for (int64_t head = group.begin; head < group.end; head += kAttendRows) {
      AttentionItem item = {.seq = seq, .kv_head = kv, .head = static_cast<int32_t>(head)};
      item.heads = static_cast<int32_t>(std::min<int64_t>(kAttendRows, group.end - head));
      const int32_t most_tokens = kAttendRows / item.heads;
      for (int32_t row = seq_begin[seq]; row < seq_begin[seq + 1]; row += most_tokens) {
        item.row = row;
        item.tokens = std::min(most_tokens, seq_begin[seq + 1] - row);
        const auto [low, high] =
            std::minmax_element(positions + row, positions + row + item.tokens);
        item.first_key = FirstKey(*low, call.shape->window);
        item.last_key = *high;
        item.chunk_begin = item.first_key / kChunkTokens;
        item.chunk_end = item.last_key / kChunkTokens + 1;
        items_.push_back(item);
      }
    }
  }
}

void CpuAttention::PlaceSharedParts(const Call& call) {
  int64_t size = 0;
  size_t i = 0;
  for (int64_t piece = 1; piece < pieces_; ++piece) {
    const int64_t cut = Split(total_cost_, pieces_, piece).begin;
    while (i + 1 < items_.size() && items_[i + 1].cost < cut) ++i;
    AttentionItem& item = items_[i];
    const int64_t last_chunk = item.cost + (Chunks(item) - 1) * ChunkCost(item);
    if (item.cost >= cut || last_chunk < cut || item.parts >= 0) continue;
    item.parts = size;
    size += Chunks(item) * item.rows() * call.part_size;
  }
  if (shared_parts_.size() < static_cast<size_t>(size))
    shared_parts_.resize(static_cast<size_t>(size));
}

void CpuAttention::Reserve(const Call& call) {
  scratch_.resize(static_cast<size_t>(context_.pool->threads()));
  const size_t parts = static_cast<size_t>(2 * kAttendRows * call.part_size);
  for (Scratch& scratch : scratch_) {
    scratch.scores.resize(kAttendRows * kChunkTokens);
    if (scratch.parts.size() < parts) scratch.parts.resize(parts);
  }
}

const std::byte* CpuAttention::TileKeys(const Call& call, const AttentionItem& item,
                                        int64_t token) {
  const int32_t block_size = call.cache->shape().block_size;
  const int32_t* blocks = call.batch->blocks.I32() + call.batch->block_begin.I32()[item.seq];
  const int64_t slot = int64_t{blocks[token / block_size]} * block_size + token % block_size;
  return call.cache->Keys(slot / kTileTokens, item.kv_head);
}

// The tiles of a piece in the order in which they are read.
class CpuAttention::TileStream {
 public:
  TileStream(const Call& call, std::span<const Place> places) : call_(call), places_(places) {
    for (int i = 0; i < kChunkTiles; ++i) Next();
  }

  // The keys of the tile kChunkTiles behind those that have been asked for; null behind the last.
  const std::byte* Next() {
    if (places_.empty()) return nullptr;
    const AttentionItem& item = *places_.front().item;
    const int64_t first = places_.front().chunk * kChunkTokens;
    if (token_ < 0) token_ = std::max(item.first_key, first) / kTileTokens * kTileTokens;
    const std::byte* keys = TileKeys(call_, item, token_);
    token_ += kTileTokens;
    if (token_ > item.last_key || token_ >= first + kChunkTokens) {
      places_ = places_.subspan(1);
      token_ = -1;
    }
    return keys;
  }

 private:
  const Call& call_;
  std::span<const Place> places_;
  int64_t token_ = -1;  // of the first place's next tile; -1: its first
};

void CpuAttention::ListPlaces(int64_t piece, std::vector<Place>* places) const {
  places->clear();
  const Range mine = Split(total_cost_, pieces_, piece);
  const auto starts_after = [](int64_t cost, const AttentionItem& item) {
    return cost < item.cost;
  };
  auto item = std::upper_bound(items_.begin(), items_.end(), mine.begin, starts_after);
  if (item != items_.begin()) --item;
  for (; item != items_.end() && item->cost < mine.end; ++item) {
    // A chunk belongs to the piece in whose range it starts.
    const int64_t step = ChunkCost(*item);
    const auto chunks_before = [&](int64_t cost) {
      return std::clamp<int64_t>((cost - item->cost + step - 1) / step, 0, Chunks(*item));
    };
    const int64_t end = chunks_before(mine.end);
    for (int64_t c = chunks_before(std::max(mine.begin, item->cost)); c < end; ++c)
      places->push_back({&*item, item->chunk_begin + c});
  }
}

void CpuAttention::RunPiece(const Call& call, int64_t piece, int worker) {
  Scratch& scratch = scratch_[static_cast<size_t>(worker)];
  ListPlaces(piece, &scratch.places);
  std::span<const Place> places = scratch.places;
  TileStream ahead(call, places);
  while (!places.empty()) {
    size_t count = 1;
    while (count < places.size() && places[count].item == places[0].item) ++count;
    RunItem(call, places.first(count), ahead, scratch);
    places = places.subspan(count);
  }
}

void CpuAttention::RunItem(const Call& call, std::span<const Place> chunks, TileStream& ahead,
                           Scratch& scratch) {
  const AttentionItem& item = *chunks[0].item;
  const int64_t size = item.rows() * call.part_size;
  if (item.parts >= 0) {
    float* parts = shared_parts_.data() + item.parts;
    for (const Place& place : chunks)
      AttendItemChunk(call, place, ahead, scratch.scores.data(),
                      parts + (place.chunk - item.chunk_begin) * size);
    return;
  }
  float* running = scratch.parts.data();
  AttendItemChunk(call, chunks[0], ahead, scratch.scores.data(), running);
  float* parts = running + kAttendRows * call.part_size;
  for (const Place& place : chunks.subspan(1)) {
    AttendItemChunk(call, place, ahead, scratch.scores.data(), parts);
    for (int32_t r = 0; r < item.rows(); ++r)
      context_.kernels().merge_part(parts + r * call.part_size, call.cache->padded_dim(),
                                    running + r * call.part_size);
  }
  FinishItem(call, item, running);
}

void CpuAttention::AttendItemChunk(const Call& call, Place place, TileStream& ahead, float* scores,
                                   float* parts) {
  const AttentionItem& item = *place.item;
  const AttentionShape& shape = *call.shape;
  const int64_t first = place.chunk * kChunkTokens;
  ChunkAttention attend = {};
  attend.head_dim = shape.head_dim;
  attend.scale = shape.scale;
  attend.scores = scores;
  for (int32_t r = 0; r < item.rows(); ++r) {
    const int64_t row = item.row + r / item.heads, head = item.head + r % item.heads;
    const int64_t position = call.batch->positions.I32()[row];
    const auto begin = static_cast<int32_t>(
        std::clamp<int64_t>(FirstKey(position, shape.window) - first, 0, kChunkTokens));
    const auto end =
        static_cast<int32_t>(std::clamp<int64_t>(position + 1 - first, 0, kChunkTokens));
    float* part = parts + r * call.part_size;
    part[call.cache->padded_dim() + 1] = 0;  // empty
    if (begin >= end) continue;
    attend.q[attend.rows] = static_cast<const float*>(call.q.At(row, head * shape.head_dim));
    attend.begin[attend.rows] = begin;
    attend.end[attend.rows] = end;
    attend.part[attend.rows++] = part;
  }
  // Rows of a prompt come back to the same tiles again and again; those are not worth fetching.
  attend.fetches = item.tokens == 1;
  const int64_t key_bytes = call.cache->key_bytes();
  const int64_t begin = std::max(item.first_key, first) - first;
  const int64_t last = std::min(item.last_key, first + kChunkTokens - 1) - first;
  for (int64_t t = begin / kTileTokens; t * kTileTokens <= last; ++t) {
    const std::byte* keys = TileKeys(call, item, first + t * kTileTokens);
    const std::byte* next = attend.fetches ? ahead.Next() : nullptr;
    if (next == nullptr) next = keys;
    attend.keys[t] = keys;
    attend.values[t] = keys + key_bytes;
    attend.next_keys[t] = next;
    attend.next_values[t] = next + key_bytes;
  }
  if (attend.rows > 0) Select(context_.kernels().attend_chunk, call.cache->shape().dtype)(attend);
}

void CpuAttention::MergeShared(const Call& call, const AttentionItem& item, Scratch& scratch) {
  const int64_t size = item.rows() * call.part_size;
  const float* parts = shared_parts_.data() + item.parts;
  float* running = scratch.parts.data();
  std::memcpy(running, parts, static_cast<size_t>(size) * sizeof(float));
  for (int64_t c = 1; c < Chunks(item); ++c)
    for (int32_t r = 0; r < item.rows(); ++r)
      context_.kernels().merge_part(parts + c * size + r * call.part_size, call.cache->padded_dim(),
                                    running + r * call.part_size);
  FinishItem(call, item, running);
}

void CpuAttention::FinishItem(const Call& call, const AttentionItem& item, const float* parts) {
  for (int32_t r = 0; r < item.rows(); ++r) {
    const int64_t row = item.row + r / item.heads, head = item.head + r % item.heads;
    context_.kernels().finish_part(
        parts + r * call.part_size, call.shape->head_dim,
        static_cast<float*>(call.out.At(row, head * call.shape->head_dim)));
  }
}

}  // namespace penstock
