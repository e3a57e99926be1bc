// The part of CpuAttention that checks its inputs and writes the cache.
#include <algorithm>

#include "shard/backend/cpu/attention.h"

namespace penstock {

bool CpuAttention::CheckShape(const AttentionShape& shape, const CpuKvCache* cache,
                              absl::string_view op) {
  if (!context_.Check(cache != nullptr, op, "the KV cache belongs to another backend"))
    return false;
  const bool sound = shape.heads > 0 && shape.group > 0 && shape.head_begin >= 0 &&
                     shape.window >= 0 && shape.kv_heads == cache->shape().kv_heads &&
                     shape.head_dim == cache->shape().head_dim &&
                     shape.kv_of(shape.heads - 1) < shape.kv_heads;
  return context_.Check(sound, op, shape.heads, " heads from ", shape.head_begin,
                        " on in groups of ", shape.group, ", ", shape.kv_heads, " KV heads of ",
                        shape.head_dim, ", window ", shape.window, " do not fit a cache of ",
                        cache->shape().kv_heads, " KV heads of ", cache->shape().head_dim);
}

bool CpuAttention::CheckBatch(const DeviceBatch& batch, int64_t tokens, absl::string_view op) {
  const int64_t seqs = batch.seqs();
  if (!context_.CheckMatrix(batch.positions, 1, tokens, DType::kI32, op, "positions") ||
      !context_.CheckMatrix(batch.context_lens, 1, seqs, DType::kI32, op, "context_lens") ||
      !context_.CheckMatrix(batch.seq_begin, 1, seqs + 1, DType::kI32, op, "seq_begin") ||
      !context_.CheckMatrix(batch.block_begin, 1, seqs + 1, DType::kI32, op, "block_begin") ||
      !context_.CheckMatrix(batch.blocks, 1, batch.blocks.cols, DType::kI32, op, "blocks"))
    return false;
  const int32_t* rows = batch.seq_begin.I32();
  const int32_t* blocks = batch.block_begin.I32();
  return context_.Check(rows[0] == 0 && rows[seqs] == tokens &&
                            std::is_sorted(rows, rows + seqs + 1) && blocks[0] >= 0 &&
                            blocks[seqs] <= batch.blocks.cols &&
                            std::is_sorted(blocks, blocks + seqs + 1),
                        op, "seq_begin or block_begin is not ascending over its array");
}

bool CpuAttention::CheckSequence(const Call& call, int64_t seq) {
  const DeviceBatch& batch = *call.batch;
  const KvCacheShape& cache = call.cache->shape();
  const int64_t context = batch.context_lens.I32()[seq];
  const int32_t* begin = batch.block_begin.I32() + seq;
  const int64_t needed = (context + cache.block_size - 1) / cache.block_size;
  if (!context_.Check(context >= 0 && needed <= begin[1] - begin[0], "Attention", "sequence ", seq,
                      " of ", context, " tokens has ", begin[1] - begin[0], " blocks"))
    return false;
  for (int64_t b = begin[0]; b < begin[0] + needed; ++b) {
    const int32_t block = batch.blocks.I32()[b];
    if (!context_.Check(block >= 0 && block < cache.blocks, "Attention", "sequence ", seq,
                        " names block ", block, " of ", cache.blocks))
      return false;
  }
  for (int32_t row = batch.seq_begin.I32()[seq]; row < batch.seq_begin.I32()[seq + 1]; ++row) {
    const int32_t position = batch.positions.I32()[row];
    if (!context_.Check(position >= 0 && position < context, "Attention", "row ", row,
                        " at position ", position, " of a sequence of ", context))
      return false;
  }
  return true;
}

bool CpuAttention::CheckRope(const Matrix& qkv, const DeviceBatch& batch, const RopeTable& rope,
                             const AttentionShape& shape, const CpuKvCache& cache) {
  constexpr absl::string_view kOp = "RopeAndCache";
  const int64_t cols = (int64_t{shape.heads} + 2 * int64_t{shape.kv_heads}) * shape.head_dim;
  if (!context_.CheckMatrix(qkv, qkv.rows, cols, DType::kF32, kOp, "qkv") ||
      !context_.CheckMatrix(batch.positions, 1, qkv.rows, DType::kI32, kOp, "positions") ||
      !context_.CheckMatrix(batch.slots, 1, qkv.rows, DType::kI32, kOp, "slots") ||
      !context_.CheckMatrix(rope.cos, rope.sin.rows, rope.sin.cols, DType::kF32, kOp, "cos") ||
      !context_.CheckMatrix(rope.sin, rope.cos.rows, rope.cos.cols, DType::kF32, kOp, "sin") ||
      !context_.Check(2 * rope.cos.cols <= shape.head_dim, kOp, "rotary_dim exceeds head_dim"))
    return false;
  for (int64_t i = 0; i < qkv.rows; ++i) {
    const int64_t position = batch.positions.I32()[i], slot = batch.slots.I32()[i];
    const bool known = rope.cos.cols == 0 || position < rope.cos.rows;
    if (!context_.Check(position >= 0 && known && slot >= 0 && slot < cache.slots(), kOp, "row ", i,
                        " has position ", position, " of ", rope.cos.rows, ", slot ", slot, " of ",
                        cache.slots()))
      return false;
  }
  return true;
}

void CpuAttention::RopeAndCache(Matrix qkv, const DeviceBatch& batch, const RopeTable& rope,
                                const AttentionShape& shape, KvCache& cache) {
  auto* paged = dynamic_cast<CpuKvCache*>(&cache);
  if (!CheckShape(shape, paged, "RopeAndCache") || !CheckRope(qkv, batch, rope, shape, *paged))
    return;
  const int64_t dim = shape.head_dim, heads = shape.heads, kv_heads = shape.kv_heads;
  const auto write = Select(context_.kernels().write_kv, paged->shape().dtype);
  const int64_t grain = std::max<int64_t>(1, (1 << 13) / qkv.cols);
  context_.pool->ForRanges(qkv.rows, grain, [&](Range rows, int) {
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      float* row = static_cast<float*>(qkv.At(i, 0));
      if (rope.cos.cols > 0) {
        const int64_t position = batch.positions.I32()[i];
        const auto* cos = static_cast<const float*>(rope.cos.At(position, 0));
        const auto* sin = static_cast<const float*>(rope.sin.At(position, 0));
        for (int64_t h = 0; h < heads + kv_heads; ++h)
          context_.kernels().rotate(cos, sin, rope.cos.cols, row + h * dim);
      }
      const int64_t slot = batch.slots.I32()[i], tile = slot / kTileTokens;
      for (int32_t kv = 0; kv < kv_heads; ++kv)
        write(row + (heads + kv) * dim, row + (heads + kv_heads + kv) * dim, dim,
              static_cast<int>(slot % kTileTokens), paged->Keys(tile, kv), paged->Values(tile, kv));
    }
  });
}

}  // namespace penstock
