#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "scheduler/request.h"

namespace penstock {

// Names of the prompt's first 1, 2, 4, 8, ... whole blocks of `block_tokens` tokens, the longest
// first; prompts of another salt have others. Equal for equal prefixes; different prefixes have the
// same by accident only.
std::vector<uint64_t> PrefixKeys(const GenerateRequest& request, int32_t block_tokens);

// A name of the call that a sequence belongs to: equal for its samples, different for others'.
uint64_t CallKey(const GenerateRequest& request);

// Which replica has last seen a key; of the last `capacity` keys. Not thread-safe.
class PrefixAffinity {
 public:
  explicit PrefixAffinity(size_t capacity) : capacity_(capacity) {}

  // Of the first key that is known.
  std::optional<size_t> Find(std::span<const uint64_t> keys) const;
  void Remember(std::span<const uint64_t> keys, size_t replica);
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    uint64_t key;
    size_t replica;
  };
  const size_t capacity_;
  std::list<Entry> entries_;  // the youngest first
  std::unordered_map<uint64_t, std::list<Entry>::iterator> by_key_;
};

}  // namespace penstock
