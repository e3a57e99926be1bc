#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace penstock {

// Hands out the ids of KV blocks; the memory itself is in the shards. Blocks are reference-counted
// so that sequences may share a prefix (the block table of PagedAttention, SOSP'23). A block that
// nobody holds is free; some free ones are kept for what they contain and are handed out last, the
// one that was given back first before the others. Not thread-safe.
class KvBlockPool {
 public:
  KvBlockPool(int32_t blocks, int32_t block_size);

  int32_t block_size() const { return block_size_; }
  int32_t total() const { return static_cast<int32_t>(references_.size()); }
  int32_t available() const { return static_cast<int32_t>(free_.size()) + kept_; }
  int32_t used() const { return total() - available(); }
  int32_t kept() const { return kept_; }  // of those available
  bool held(int32_t block) const { return references_[static_cast<size_t>(block)] > 0; }
  // Blocks that hold `tokens` tokens.
  int32_t BlocksFor(int64_t tokens) const {
    return static_cast<int32_t>((tokens + block_size_ - 1) / block_size_);
  }

  // A block with one reference; nullopt when none is available. What it contains is lost.
  std::optional<int32_t> Allocate();
  void Share(int32_t block);  // one more reference to a block that is held or kept
  // One reference less; the last one frees the block, and keeps it when that is wanted.
  void Release(int32_t block, bool keep);
  // What the kept blocks contain is worth nothing any more.
  void ForgetKept();

 private:
  void Unlink(int32_t block);

  const int32_t block_size_;
  std::vector<int32_t> free_;        // a stack: what was freed last is still warm in a cache
  std::vector<int32_t> references_;  // [blocks]
  // The kept blocks, a ring through the entry behind the last block; the oldest is next of that.
  std::vector<int32_t> next_, previous_;  // [blocks + 1]
  int32_t kept_ = 0;
};

}  // namespace penstock
