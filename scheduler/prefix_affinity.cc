#include "scheduler/prefix_affinity.h"

#include <algorithm>

#include "absl/time/time.h"

namespace penstock {
namespace {

// One round of splitmix64's finalizer.
uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) + 0x9e3779b97f4a7c15;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111eb;
  return hash ^ (hash >> 31);
}

uint64_t Mix(uint64_t hash, std::span<const int32_t> tokens) {
  for (int32_t token : tokens) hash = Mix(hash, static_cast<uint32_t>(token));
  return hash;
}

}  // namespace

std::vector<uint64_t> PrefixKeys(const GenerateRequest& request, int32_t block_tokens) {
  const std::span<const int32_t> prompt = request.prompt;
  std::vector<uint64_t> keys;
  uint64_t hash = Mix(1, request.cache_salt);
  size_t hashed = 0;
  for (auto tokens = static_cast<size_t>(block_tokens); tokens <= prompt.size(); tokens *= 2) {
    hash = Mix(hash, prompt.subspan(hashed, tokens - hashed));
    hashed = tokens;
    keys.push_back(hash);
  }
  std::reverse(keys.begin(), keys.end());
  return keys;
}

uint64_t CallKey(const GenerateRequest& request) {
  uint64_t hash = Mix(2, request.cache_salt);
  hash = Mix(hash, request.sampling.seed);
  hash = Mix(hash, static_cast<uint64_t>(absl::ToUnixNanos(request.arrival)));
  return Mix(hash, request.prompt);
}

std::optional<size_t> PrefixAffinity::Find(std::span<const uint64_t> keys) const {
  for (uint64_t key : keys)
    if (const auto found = by_key_.find(key); found != by_key_.end()) return found->second->replica;
  return std::nullopt;
}

void PrefixAffinity::Remember(std::span<const uint64_t> keys, size_t replica) {
  for (uint64_t key : keys) {
    if (const auto found = by_key_.find(key); found != by_key_.end()) {
      found->second->replica = replica;
      entries_.splice(entries_.begin(), entries_, found->second);
      continue;
    }
    entries_.push_front({key, replica});
    by_key_[key] = entries_.begin();
    if (entries_.size() <= capacity_) continue;
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

}  // namespace penstock
