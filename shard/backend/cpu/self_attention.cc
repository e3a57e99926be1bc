#include "shard/backend/cpu/self_attention.h"

#include <algorithm>

#include "absl/status/statusor.h"

namespace penstock {
namespace {

constexpr absl::string_view kOp = "encoder Attention";

// Of fewer pieces than this per thread, a long sequence's rows are shared out too, in parts of no
// fewer than this: each part lays out keys and values for itself.
constexpr int64_t kPiecesPerThread = 4;
constexpr int64_t kMinItemRows = 64;

int64_t RoundUp(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

void SelfAttention::Run(Matrix qkv, const DeviceBatch& batch, const AttentionShape& shape,
                        Matrix out) {
  if (!Check(qkv, batch, shape, out)) return;
  const Call call = MakeCall(qkv, batch, shape, out);
  BuildItems(batch, shape);
  if (!Reserve(call)) return;
  context_.pool->Run(std::ssize(items_), [&](int64_t piece, int worker) {
    RunItem(call, items_[static_cast<size_t>(piece)], ScratchOf(call, worker));
  });
}

bool SelfAttention::Check(const Matrix& qkv, const DeviceBatch& batch, const AttentionShape& shape,
                          const Matrix& out) {
  const bool sound = shape.heads > 0 && shape.head_dim > 0 && shape.group > 0 &&
                     shape.head_begin >= 0 && shape.window == 0 &&
                     shape.kv_of(shape.heads - 1) < shape.kv_heads;
  if (!context_.Check(sound, kOp, shape.heads, " heads of ", shape.head_dim, " from ",
                      shape.head_begin, " on in groups of ", shape.group, ", ", shape.kv_heads,
                      " KV heads, window ", shape.window, " make no sense"))
    return false;
  const int64_t dim = shape.head_dim, heads = shape.heads, kv_heads = shape.kv_heads;
  const int64_t seqs = batch.seq_begin.cols - 1;
  if (!context_.CheckMatrix(qkv, out.rows, (heads + 2 * kv_heads) * dim, DType::kF32, kOp, "qkv") ||
      !context_.CheckMatrix(out, qkv.rows, heads * dim, DType::kF32, kOp, "out") ||
      !context_.Check(seqs >= 0, kOp, "seq_begin is empty") ||
      !context_.CheckMatrix(batch.seq_begin, 1, seqs + 1, DType::kI32, kOp, "seq_begin"))
    return false;
  const int32_t* begin = batch.seq_begin.I32();
  return context_.Check(
      begin[0] == 0 && begin[seqs] == qkv.rows && std::is_sorted(begin, begin + seqs + 1), kOp,
      "seq_begin is not ascending over the rows");
}

SelfAttention::Call SelfAttention::MakeCall(const Matrix& qkv, const DeviceBatch& batch,
                                            const AttentionShape& shape, const Matrix& out) const {
  const int64_t padded = RoundUp(shape.head_dim, 16);
  const int32_t* begin = batch.seq_begin.I32();
  int64_t longest = 0;
  for (int64_t s = 0; s + 1 < batch.seq_begin.cols; ++s)
    longest = std::max<int64_t>(longest, begin[s + 1] - begin[s]);
  return {.qkv = qkv,
          .out = out,
          .shape = &shape,
          .padded_dim = padded,
          .part_size = padded + 16,
          .tile_floats = kTileTokens * (RoundUp(shape.head_dim, 4) + padded),
          .tiles = RoundUp(longest, kTileTokens) / kTileTokens};
}

void SelfAttention::BuildItems(const DeviceBatch& batch, const AttentionShape& shape) {
  const int32_t* begin = batch.seq_begin.I32();
  const int64_t seqs = batch.seq_begin.cols - 1, threads = context_.pool->threads();
  const int64_t wanted = threads == 1 ? 1 : threads * kPiecesPerThread;
  const int64_t most_parts =
      seqs == 0 ? 0 : RoundUp(wanted, seqs * shape.heads) / (seqs * shape.heads);
  items_.clear();
  for (int64_t s = 0; s < seqs; ++s) {
    const int64_t rows = begin[s + 1] - begin[s];
    if (rows == 0) continue;
    const int64_t parts = std::clamp<int64_t>(rows / kMinItemRows, 1, most_parts);
    for (int32_t head = 0; head < shape.heads; ++head)
      for (int64_t part = 0; part < parts; ++part) {
        const Range mine = Split(rows, parts, part);
        items_.push_back({.head = head,
                          .begin = begin[s],
                          .end = begin[s + 1],
                          .first = begin[s] + mine.begin,
                          .last = begin[s] + mine.end});
      }
  }
}

bool SelfAttention::Reserve(const Call& call) {
  const int64_t wanted = call.scratch_floats() * context_.pool->threads();
  if (wanted <= reserved_) return true;
  memory_ = nullptr;
  reserved_ = 0;
  absl::StatusOr<HostMemory> memory =
      AllocateZeroed(ByteCount(wanted, 1, static_cast<int64_t>(sizeof(float))));
  if (!memory.ok()) {
    context_.Fail(memory.status());
    return false;
  }
  memory_ = *std::move(memory);
  reserved_ = wanted;
  return true;
}

SelfAttention::Scratch SelfAttention::ScratchOf(const Call& call, int worker) {
  float* mine = static_cast<float*>(memory_.get()) + worker * call.scratch_floats();
  float* running = mine + kAttendRows * kChunkTokens;
  float* part = running + kAttendRows * call.part_size;
  return {.scores = mine,
          .running = running,
          .part = part,
          .tiles = part + kAttendRows * call.part_size};
}

void SelfAttention::RunItem(const Call& call, const Item& item, const Scratch& scratch) const {
  PackKeysAndValues(call, item, scratch.tiles);
  for (int64_t row = item.first; row < item.last; row += kAttendRows)
    AttendRows(call, item, row, scratch);
}

void SelfAttention::PackKeysAndValues(const Call& call, const Item& item, float* tiles) const {
  const AttentionShape& shape = *call.shape;
  const int64_t dim = shape.head_dim, kv = shape.kv_of(item.head);
  const int64_t key_column = (shape.heads + kv) * dim;
  const int64_t value_column = (shape.heads + shape.kv_heads + kv) * dim;
  const int64_t key_floats = call.tile_floats - kTileTokens * call.padded_dim;
  for (int64_t row = item.begin; row < item.end; ++row) {
    const int64_t token = row - item.begin;
    float* tile = tiles + token / kTileTokens * call.tile_floats;
    context_.kernels().write_kv.f32(static_cast<const float*>(call.qkv.At(row, key_column)),
                                    static_cast<const float*>(call.qkv.At(row, value_column)), dim,
                                    static_cast<int>(token % kTileTokens), tile, tile + key_floats);
  }
}

void SelfAttention::AttendRows(const Call& call, const Item& item, int64_t row,
                               const Scratch& scratch) const {
  const KernelTable& kernels = context_.kernels();
  const int64_t dim = call.shape->head_dim, tokens = item.end - item.begin;
  const int64_t key_floats = call.tile_floats - kTileTokens * call.padded_dim;
  ChunkAttention attend = {};
  attend.rows = static_cast<int32_t>(std::min<int64_t>(kAttendRows, item.last - row));
  attend.head_dim = dim;
  attend.scale = call.shape->scale;
  attend.scores = scratch.scores;
  for (int64_t first = 0; first < tokens; first += kChunkTokens) {
    const auto count = static_cast<int32_t>(std::min<int64_t>(kChunkTokens, tokens - first));
    float* parts = first == 0 ? scratch.running : scratch.part;
    for (int32_t r = 0; r < attend.rows; ++r) {
      attend.q[r] = static_cast<const float*>(call.qkv.At(row + r, item.head * dim));
      attend.end[r] = count;
      attend.part[r] = parts + r * call.part_size;
    }
    for (int32_t t = 0; t * kTileTokens < count; ++t) {
      float* tile = scratch.tiles + (first / kTileTokens + t) * call.tile_floats;
      attend.keys[t] = tile;
      attend.values[t] = tile + key_floats;
    }
    kernels.attend_chunk.f32(attend);
    for (int32_t r = 0; r < attend.rows && first > 0; ++r)
      kernels.merge_part(attend.part[r], call.padded_dim, scratch.running + r * call.part_size);
  }
  for (int32_t r = 0; r < attend.rows; ++r)
    kernels.finish_part(scratch.running + r * call.part_size, dim,
                        static_cast<float*>(call.out.At(row + r, item.head * dim)));
}

}  // namespace penstock
