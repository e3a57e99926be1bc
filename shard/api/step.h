#pragma once

#include <cstdint>
#include <vector>

#include "shard/api/sampling.h"

namespace penstock {

// kGenerate: rows of sequences whose keys and values live in the KV cache; some draw a token.
// kEncode: whole sequences at once for a one-shot model (an encoder): every row attends to all rows
// of its own sequence, nothing is kept. slots, blocks and block_begin are empty, context_lens are
// the sequences' lengths.
enum class StepKind : uint8_t { kGenerate, kEncode };

// Everything a rank needs for one forward step over `tokens` rows of several sequences, packed
// without padding: parallel arrays, no pointers, so that a step crosses a thread or a network
// alike.
struct StepBatch {
  int64_t step = 0;        // increases by one; a rank that sees a gap fails
  uint64_t epoch = 0;      // of the executor; an older one is refused
  uint64_t plan_hash = 0;  // HashPlan(*this); ranks check it
  StepKind kind = StepKind::kGenerate;

  std::vector<int32_t> tokens;       // [tokens] ids, sequences back to back
  std::vector<int32_t> positions;    // [tokens], from 0 in each sequence
  std::vector<int32_t> token_types;  // [tokens] segment ids of an encode step; empty: all 0
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

// What one stage did for one step, by the steady clock, in nanoseconds.
struct StageTiming {
  int64_t begin = 0;     // its input was there: the wait for the stage before is over
  int64_t end = 0;       // its output was handed on
  int64_t transfer = 0;  // of that, moving activations to or from a neighbour
  int64_t wait = 0;      // of that, waiting for other ranks

  int64_t busy() const { return end - begin - transfer - wait; }  // computing
};

struct StepResult {
  int64_t step = 0;
  std::vector<SampledToken> samples;  // parallel to StepBatch::samples
  std::vector<float> logits;          // [samples, vocab] when return_logits, else empty
  std::vector<float> outputs;         // [seqs, ExecutorInfo::output_width] of an encode step
  std::vector<StageTiming> stages;    // [stages], by the first tensor rank of each
};

}  // namespace penstock
