#pragma once

#include <cstdint>
#include <vector>

#include "shard/api/sampling.h"

namespace penstock {

// The token that FakeExecutor draws after `context`: a hash of all of it, of the seed and sample
// index, and with penalties of what the slot has counted (`counted`: prompt and output).
int32_t FakeNextToken(const std::vector<int32_t>& context, const SamplingParams& params,
                      int32_t sample_index, const std::vector<int32_t>& counted, bool mask_stops,
                      int32_t vocab);

// What a sequence that runs alone, without any interruption, must get. `generated` is what the
// client already holds; the result follows it.
struct FakeGeneration {
  std::vector<int32_t> prompt;
  std::vector<int32_t> generated;
  int32_t max_tokens = 0;
  int32_t min_tokens = 0;
  std::vector<int32_t> stop_tokens;
  SamplingParams sampling;
  int32_t sample_index = 0;
};
std::vector<int32_t> FakeGenerate(const FakeGeneration& generation, int32_t vocab);

}  // namespace penstock
