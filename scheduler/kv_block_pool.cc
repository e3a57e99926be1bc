#include "scheduler/kv_block_pool.h"

#include <cassert>

namespace penstock {

KvBlockPool::KvBlockPool(int32_t blocks, int32_t block_size)
    : block_size_(block_size), references_(static_cast<size_t>(blocks)) {
  free_.reserve(references_.size());
  for (int32_t block = blocks; block-- > 0;) free_.push_back(block);
}

std::optional<int32_t> KvBlockPool::Allocate() {
  if (free_.empty()) return std::nullopt;
  const int32_t block = free_.back();
  free_.pop_back();
  references_[static_cast<size_t>(block)] = 1;
  return block;
}

void KvBlockPool::Share(int32_t block) {
  assert(references_[static_cast<size_t>(block)] > 0);
  ++references_[static_cast<size_t>(block)];
}

void KvBlockPool::Release(int32_t block) {
  assert(references_[static_cast<size_t>(block)] > 0);
  if (--references_[static_cast<size_t>(block)] == 0) free_.push_back(block);
}

}  // namespace penstock
