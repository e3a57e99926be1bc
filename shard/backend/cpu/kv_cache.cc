#include "shard/backend/cpu/kv_cache.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

int64_t PaddedDimOf(int64_t head_dim) { return (head_dim + 15) / 16 * 16; }

absl::Status CheckShape(const KvCacheShape& shape) {
  if (shape.blocks < 0 || shape.kv_heads <= 0 || shape.head_dim <= 0 || shape.head_dim % 2 != 0 ||
      shape.head_dim > (1 << 20))
    return absl::InvalidArgumentError(absl::StrCat("KV cache of ", shape.blocks, " blocks, ",
                                                   shape.kv_heads, " heads of ", shape.head_dim,
                                                   " dimensions (an even number) cannot be made"));
  if (shape.block_size <= 0 || shape.block_size % kTileTokens != 0)
    return absl::InvalidArgumentError(absl::StrCat("KV cache block_size must be a multiple of ",
                                                   kTileTokens, ", is ", shape.block_size));
  if (shape.dtype == DType::kI32)
    return absl::InvalidArgumentError("KV cache dtype must be f32, f16 or bf16");
  return absl::OkStatus();
}

}  // namespace

int64_t CpuKvCache::BytesFor(const KvCacheShape& shape) {
  const int64_t numbers =
      kTileTokens * (int64_t{shape.head_dim} + PaddedDimOf(shape.head_dim));  // of a tile's head
  const int64_t tiles = int64_t{shape.blocks} * (shape.block_size / kTileTokens);
  const int64_t head_bytes = numbers * static_cast<int64_t>(SizeOf(shape.dtype));
  return ByteCount(tiles, shape.kv_heads, head_bytes);
}

CpuKvCache::CpuKvCache(const KvCacheShape& shape, HostMemory memory)
    : shape_(shape),
      bytes_(BytesFor(shape)),
      padded_dim_(PaddedDimOf(shape.head_dim)),
      key_bytes_(int64_t{shape.head_dim} * kTileTokens * static_cast<int64_t>(SizeOf(shape.dtype))),
      head_bytes_(key_bytes_ +
                  padded_dim_ * kTileTokens * static_cast<int64_t>(SizeOf(shape.dtype))),
      memory_(std::move(memory)) {}

absl::StatusOr<std::unique_ptr<CpuKvCache>> CpuKvCache::Make(const KvCacheShape& shape) {
  RETURN_IF_ERROR(CheckShape(shape));
  const int64_t bytes = BytesFor(shape);
  if (bytes < 0) return absl::ResourceExhaustedError("KV cache is larger than any memory");
  ASSIGN_OR_RETURN(HostMemory memory, AllocateZeroed(bytes));
  return std::unique_ptr<CpuKvCache>(new CpuKvCache(shape, std::move(memory)));
}

}  // namespace penstock
