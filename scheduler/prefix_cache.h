#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace penstock {

// Which KV block holds which tokens: a tree of blocks in which a path from a root spells the tokens
// of a prompt, each block the `block_size` tokens that follow those of its parent. (The block hash
// chain of vLLM's automatic prefix caching; the radix tree of SGLang, arXiv 2312.07104.) Tokens are
// compared, not only hashed, so a collision can neither mix up results nor show one tenant's
// prompt to another. Says nothing about who holds a block. Not thread-safe.
class PrefixCache {
 public:
  using Node = uint64_t;  // a path; never used again once its block is forgotten

  PrefixCache(int32_t blocks, int32_t block_size);

  // Where the prompts of one salt begin.
  static Node Root(uint64_t salt) { return salt | kRootBit; }

  struct Match {
    std::vector<int32_t> blocks;  // they hold the first blocks.size() * block_size tokens
    Node node = 0;                // the path to the last one
  };
  // The longest known prefix of `tokens`, in whole blocks.
  Match Find(uint64_t salt, std::span<const int32_t> tokens) const;

  // `block` holds `tokens` (block_size of them) behind the path `parent`. When another block does
  // already, that one stays. Returns the path that is now known.
  Node Insert(Node parent, std::span<const int32_t> tokens, int32_t block);
  // The block is given to somebody else.
  void Forget(int32_t block);
  void Clear();

  bool Knows(int32_t block) const { return entries_[static_cast<size_t>(block)].node != 0; }
  int32_t size() const { return static_cast<int32_t>(by_hash_.size()); }

 private:
  static constexpr uint64_t kRootBit = uint64_t{1} << 63;
  struct Entry {
    Node node = 0;  // 0: not in the tree
    Node parent = 0;
    uint64_t hash = 0;
  };
  // The block that holds `tokens` behind `parent`; -1 when there is none.
  int32_t Lookup(Node parent, std::span<const int32_t> tokens, uint64_t hash) const;
  std::span<const int32_t> Tokens(int32_t block) const;

  const size_t block_size_;
  std::vector<Entry> entries_;   // [blocks]
  std::vector<int32_t> tokens_;  // [blocks, block_size]
  absl::flat_hash_map<uint64_t, int32_t> by_hash_;
  Node next_ = 1;
};

}  // namespace penstock
