#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "shard/backend/backend.h"
#include "shard/backend/cpu/kernel_table.h"
#include "shard/backend/cpu/memory.h"

namespace penstock {

// A layer's keys and values in tiles of 16 tokens, block_size / 16 tiles to a block. In every tile,
// per KV head: the keys [head_dim][16], then the values [16][padded_dim], in the cache's dtype.
class CpuKvCache : public KvCache {
 public:
  // InvalidArgument for a shape this backend has no layout for: block_size must be a multiple of
  // 16, head_dim even, the dtype f32, f16 or bf16.
  static absl::StatusOr<std::unique_ptr<CpuKvCache>> Make(const KvCacheShape& shape);
  // -1 for absurd shapes.
  static int64_t BytesFor(const KvCacheShape& shape);

  int64_t bytes() const override { return bytes_; }
  const KvCacheShape& shape() const { return shape_; }
  int64_t padded_dim() const { return padded_dim_; }
  int64_t slots() const { return int64_t{shape_.blocks} * shape_.block_size; }

  int64_t key_bytes() const { return key_bytes_; }
  // tile = slot / 16.
  std::byte* Keys(int64_t tile, int32_t kv_head) const {
    return static_cast<std::byte*>(memory_.get()) +
           (tile * shape_.kv_heads + kv_head) * head_bytes_;
  }
  std::byte* Values(int64_t tile, int32_t kv_head) const {
    return Keys(tile, kv_head) + key_bytes_;
  }

 private:
  CpuKvCache(const KvCacheShape& shape, HostMemory memory);

  const KvCacheShape shape_;
  const int64_t bytes_;
  const int64_t padded_dim_;
  const int64_t key_bytes_;   // of one head's keys in a tile, the values' distance
  const int64_t head_bytes_;  // keys and values
  HostMemory memory_;
};

}  // namespace penstock
