#pragma once

#include <cstdint>
#include <vector>

#include "shard/api/sampling.h"

namespace penstock {

// Everything a rank needs for one forward step over `tokens` rows of several sequences, packed
// without padding: parallel arrays, no pointers, so that a step crosses a thread or a network
// alike.
struct StepBatch {
  int64_t step = 0;        // increases by one; a rank that sees a gap fails
  uint64_t epoch = 0;      // of the executor; an older one is refused
  uint64_t plan_hash = 0;  // HashPlan(*this); ranks check it

  std::vector<int32_t> tokens;     // [tokens] ids, sequences back to back
  std::vector<int32_t> positions;  // [tokens]
  std::vector<int32_t> slots;  // [tokens] KV slot each token writes: block * block_size + offset
  std::vector<int32_t> seq_begin;     // [seqs + 1] offsets into tokens
  std::vector<int32_t> context_lens;  // [seqs] KV length once this step has written
  std::vector<int32_t> block_begin;   // [seqs + 1] offsets into blocks
  std::vector<int32_t> blocks;        // KV block ids, sequences back to back

  std::vector<SlotAssignment> assignments;  // applied before sampling
  std::vector<SampleRow> samples;           // ascending rows
  bool return_logits = false;               // for verification: StepResult::logits is filled

  int64_t seqs() const { return static_cast<int64_t>(context_lens.size()); }
};

// Of everything that decides what the ranks compute (not of plan_hash itself).
uint64_t HashPlan(const StepBatch& batch);

struct StepResult {
  int64_t step = 0;
  std::vector<SampledToken> samples;  // parallel to StepBatch::samples
  std::vector<float> logits;          // [samples, vocab] when return_logits, else empty
};

}  // namespace penstock
