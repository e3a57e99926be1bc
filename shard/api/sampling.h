#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace penstock {

// How one sequence turns logits into tokens. Every value has been validated at the door.
// Order of operations: penalties, logit_bias, stop mask, temperature, min_p, top_k, top_p, draw.
struct SamplingParams {
  float temperature = 1.0f;         // 0 selects the most likely token (lowest id among equals)
  int32_t top_k = 0;                // 0 keeps every token
  float top_p = 1.0f;               // (0, 1]
  float min_p = 0.0f;               // [0, 1], relative to the most likely token
  float repetition_penalty = 1.0f;  // > 0; prompt and output tokens
  float presence_penalty = 0.0f;    // output tokens
  float frequency_penalty = 0.0f;   // output tokens, per occurrence
  uint64_t seed = 0;
  int32_t logprobs =
      -1;  // -1 none; 0 the chosen token's; N also the N most likely, of the raw logits
  std::vector<std::pair<int32_t, float>> logit_bias;
  std::vector<int32_t> masked_until_min;  // ids that may not be drawn while SampleRow::mask_stops

  bool has_penalties() const {
    return repetition_penalty != 1.0f || presence_penalty != 0.0f || frequency_penalty != 0.0f;
  }
};

// Binds a sequence to a slot: sent once when the sequence starts (or starts again), so that a step
// carries only what changed. The rank that samples adds each token it draws to the slot's counts.
struct SlotAssignment {
  int32_t slot = 0;  // [0, ExecutorInfo::max_sequences)
  SamplingParams params;
  int32_t sample_index = 0;        // which of the request's `n` samples
  std::vector<int32_t> prompt;     // for repetition_penalty; empty when there are no penalties
  std::vector<int32_t> generated;  // tokens already drawn, likewise
};

// A row of the step whose logits become a token. The draw is a hash of (seed, sample_index,
// position), so it does not depend on the step or on the other rows.
struct SampleRow {
  int32_t row = 0;  // index into StepBatch::tokens
  int32_t slot = 0;
  int32_t position = 0;  // of the token to be drawn, counted from the start of the prompt
  bool mask_stops = false;
};

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;
};

// In the place of a token: no logit was finite. The sequence cannot go on; its neighbours can.
inline constexpr int32_t kNoToken = -1;

struct SampledToken {
  int32_t token = 0;
  float logprob = 0;              // of the raw logits; 0 unless asked for
  std::vector<TokenLogprob> top;  // SamplingParams::logprobs entries, most likely first
};

}  // namespace penstock
