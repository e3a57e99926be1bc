#pragma once

#include <cstdint>
#include <vector>

#include "shard/backend/ops.h"

namespace penstock {

// The arrays of a step in which each of `sequences` brings `rows` rows, after which `context` of
// its tokens are in the cache. Blocks have 16 tokens and are dealt out in turns, so that a
// sequence's lie apart.
class AttentionStep {
 public:
  static constexpr int32_t kBlockSize = 16;

  AttentionStep(int32_t sequences, int32_t rows, int32_t context);
  AttentionStep(const AttentionStep&) = delete;  // batch() points into it
  AttentionStep& operator=(const AttentionStep&) = delete;

  int32_t blocks() const { return static_cast<int32_t>(blocks_.size()); }  // of the cache
  int64_t tokens() const { return static_cast<int64_t>(positions_.size()); }
  double keys_seen() const;  // by all rows
  DeviceBatch batch();

 private:
  std::vector<int32_t> positions_, slots_, seq_begin_{0}, contexts_, block_begin_{0}, blocks_;
};

}  // namespace penstock
