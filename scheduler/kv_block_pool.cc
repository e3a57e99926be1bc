#include "scheduler/kv_block_pool.h"

#include <cassert>

namespace penstock {

KvBlockPool::KvBlockPool(int32_t blocks, int32_t block_size)
    : block_size_(block_size),
      references_(static_cast<size_t>(blocks)),
      next_(static_cast<size_t>(blocks) + 1),
      previous_(static_cast<size_t>(blocks) + 1) {
  free_.reserve(references_.size());
  for (int32_t block = blocks; block-- > 0;) free_.push_back(block);
  next_.back() = previous_.back() = blocks;
}

std::optional<int32_t> KvBlockPool::Allocate() {
  int32_t block = 0;
  if (!free_.empty()) {
    block = free_.back();
    free_.pop_back();
  } else if (kept_ > 0) {
    block = next_.back();
    Unlink(block);
  } else {
    return std::nullopt;
  }
  references_[static_cast<size_t>(block)] = 1;
  return block;
}

void KvBlockPool::Share(int32_t block) {
  if (!held(block)) Unlink(block);
  ++references_[static_cast<size_t>(block)];
}

void KvBlockPool::Release(int32_t block, bool keep) {
  const auto at = static_cast<size_t>(block);
  assert(references_[at] > 0);
  if (--references_[at] > 0) return;
  if (!keep) return free_.push_back(block);
  const int32_t ring = total(), last = previous_.back();
  next_[static_cast<size_t>(last)] = block;
  previous_[at] = last;
  next_[at] = ring;
  previous_.back() = block;
  ++kept_;
}

void KvBlockPool::Unlink(int32_t block) {
  const int32_t next = next_[static_cast<size_t>(block)];
  const int32_t previous = previous_[static_cast<size_t>(block)];
  next_[static_cast<size_t>(previous)] = next;
  previous_[static_cast<size_t>(next)] = previous;
  --kept_;
}

void KvBlockPool::ForgetKept() {
  while (kept_ > 0) {
    const int32_t block = next_.back();
    Unlink(block);
    free_.push_back(block);
  }
}

}  // namespace penstock
