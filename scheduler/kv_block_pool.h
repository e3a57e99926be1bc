#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace penstock {

// Hands out the ids of KV blocks; the memory itself is in the shards. Blocks are reference-counted
// so that sequences may share a prefix (the block table of PagedAttention, SOSP'23). Not
// thread-safe.
class KvBlockPool {
 public:
  KvBlockPool(int32_t blocks, int32_t block_size);

  int32_t block_size() const { return block_size_; }
  int32_t total() const { return static_cast<int32_t>(references_.size()); }
  int32_t available() const { return static_cast<int32_t>(free_.size()); }
  int32_t used() const { return total() - available(); }
  // Blocks that hold `tokens` tokens.
  int32_t BlocksFor(int64_t tokens) const {
    return static_cast<int32_t>((tokens + block_size_ - 1) / block_size_);
  }

  // A block with one reference; nullopt when none is left.
  std::optional<int32_t> Allocate();
  void Share(int32_t block);    // one more reference to an allocated block
  void Release(int32_t block);  // one reference less; the last one frees the block

 private:
  const int32_t block_size_;
  std::vector<int32_t> free_;        // a stack: what was freed last is still warm in a cache
  std::vector<int32_t> references_;  // [blocks]
};

}  // namespace penstock
