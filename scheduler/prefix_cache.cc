#include "scheduler/prefix_cache.h"

#include <algorithm>

namespace penstock {
namespace {

// Parents are counted up and tokens are small, so each word is mixed before the next one joins.
uint64_t Hash(uint64_t parent, std::span<const int32_t> tokens) {
  const auto mix = [](uint64_t word) {
    word *= 0x9e3779b97f4a7c15u;
    return word ^ (word >> 29);
  };
  uint64_t state = mix(parent ^ 0xcbf29ce484222325u);
  for (const int32_t token : tokens) state = mix(state ^ static_cast<uint32_t>(token));
  return state;
}

}  // namespace

PrefixCache::PrefixCache(int32_t blocks, int32_t block_size)
    : block_size_(static_cast<size_t>(block_size)),
      entries_(static_cast<size_t>(blocks)),
      tokens_(static_cast<size_t>(blocks) * block_size_) {}

std::span<const int32_t> PrefixCache::Tokens(int32_t block) const {
  return std::span(tokens_).subspan(static_cast<size_t>(block) * block_size_, block_size_);
}

int32_t PrefixCache::Lookup(Node parent, std::span<const int32_t> tokens, uint64_t hash) const {
  const auto found = by_hash_.find(hash);
  if (found == by_hash_.end()) return -1;
  const int32_t block = found->second;
  if (entries_[static_cast<size_t>(block)].parent != parent) return -1;
  return std::ranges::equal(Tokens(block), tokens) ? block : -1;
}

PrefixCache::Match PrefixCache::Find(uint64_t salt, std::span<const int32_t> tokens) const {
  Match match{.blocks = {}, .node = Root(salt)};
  for (; tokens.size() >= block_size_; tokens = tokens.subspan(block_size_)) {
    const auto part = tokens.first(block_size_);
    const int32_t block = Lookup(match.node, part, Hash(match.node, part));
    if (block < 0) break;
    match.blocks.push_back(block);
    match.node = entries_[static_cast<size_t>(block)].node;
  }
  return match;
}

PrefixCache::Node PrefixCache::Insert(Node parent, std::span<const int32_t> tokens, int32_t block) {
  const uint64_t hash = Hash(parent, tokens);
  const int32_t known = Lookup(parent, tokens, hash);
  if (known >= 0) return entries_[static_cast<size_t>(known)].node;
  Forget(block);
  const auto [place, is_new] = by_hash_.try_emplace(hash, block);
  if (!is_new) {  // other tokens of the same hash: the newer are asked for sooner
    entries_[static_cast<size_t>(place->second)] = {};
    place->second = block;
  }
  std::ranges::copy(
      tokens, tokens_.begin() + static_cast<int64_t>(static_cast<size_t>(block) * block_size_));
  entries_[static_cast<size_t>(block)] = {.node = next_, .parent = parent, .hash = hash};
  return next_++;
}

void PrefixCache::Forget(int32_t block) {
  Entry& entry = entries_[static_cast<size_t>(block)];
  if (entry.node == 0) return;
  by_hash_.erase(entry.hash);
  entry = {};
}

void PrefixCache::Clear() {
  by_hash_.clear();
  std::ranges::fill(entries_, Entry{});
}

}  // namespace penstock
