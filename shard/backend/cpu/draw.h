#pragma once

#include <cstdint>
#include <vector>

#include "shard/api/sampling.h"
#include "shard/backend/cpu/kernel_table.h"

namespace penstock {

// How one row of logits becomes one token: pure functions of their arguments, so that a draw does
// not depend on the step, the batch or the number of threads.

struct Candidate {
  float logit = 0;
  float weight = 0;  // exp((logit - highest) / temperature)
  int32_t id = 0;
};

// One thread's memory; grows to the vocabulary.
struct DrawScratch {
  std::vector<float> logits;  // after penalties, bias and mask
  std::vector<float> weights;
  std::vector<float> sums, most, order;  // of blocks of weights
  std::vector<Candidate> candidates;
};

// A number in [0, 1): the finalizer of SplitMix64 (Steele, Lea and Flood, 2014) over seed, sample
// index and position in turn.
double UniformNumber(uint64_t seed, int32_t sample_index, int32_t position);

// The id of the highest finite logit, the lowest id among equals; kNoToken when there is none.
int32_t MostLikely(const float* logits, int32_t vocab, const KernelTable& kernels);

// Draws an id by temperature, min_p, top_k and top_p from finite logits with the uniform number u:
// what is left is laid out in ascending order of ids, and u picks a place in the sum of the
// weights. `temperature` must be positive. kNoToken when no logit is finite.
//   min_p keeps weights of at least min_p times the highest. top_k keeps the k highest logits,
//   lower ids first among equals. top_p keeps, in the same order, the fewest whose share of what is
//   left reaches top_p.
int32_t DrawToken(const float* logits, int32_t vocab, const SamplingParams& params, double u,
                  const KernelTable& kernels, DrawScratch& scratch);

// Fills in logprob and the `count` most likely of log_softmax(logits); ids without a finite logit
// do not count. `result.token` must have a finite logit.
void AddLogprobs(const float* logits, int32_t vocab, int32_t count, const KernelTable& kernels,
                 DrawScratch& scratch, SampledToken& result);

}  // namespace penstock
