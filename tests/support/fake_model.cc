#include "tests/support/fake_model.h"

#include <algorithm>

namespace penstock {
namespace {

// Order matters, so that swapped tokens are seen (splitmix64's finalizer per word).
uint64_t Mix(uint64_t state, uint64_t word) {
  uint64_t z = state * 31 + word + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint64_t Mix(uint64_t state, const std::vector<int32_t>& tokens) {
  for (int32_t token : tokens) state = Mix(state, static_cast<uint32_t>(token));
  return state;
}

bool Contains(const std::vector<int32_t>& ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

int32_t FakeNextToken(const std::vector<int32_t>& context, const SamplingParams& params,
                      int32_t sample_index, const std::vector<int32_t>& counted, bool mask_stops,
                      int32_t vocab) {
  uint64_t state = Mix(Mix(params.seed, static_cast<uint32_t>(sample_index)), context);
  if (params.has_penalties()) state = Mix(state, counted);
  auto token = static_cast<int32_t>(state % static_cast<uint32_t>(vocab));
  while (mask_stops && Contains(params.masked_until_min, token)) token = (token + 1) % vocab;
  return token;
}

std::vector<int32_t> FakeGenerate(const FakeGeneration& generation, int32_t vocab) {
  SamplingParams params = generation.sampling;
  if (params.masked_until_min.empty()) params.masked_until_min = generation.stop_tokens;
  std::vector<int32_t> context = generation.prompt;
  context.insert(context.end(), generation.generated.begin(), generation.generated.end());
  auto generated = static_cast<int32_t>(generation.generated.size());
  std::vector<int32_t> drawn;
  while (generated < generation.max_tokens) {
    // Prompt and output are exactly the context, in this order.
    drawn.push_back(FakeNextToken(context, params, generation.sample_index, context,
                                  generated < generation.min_tokens, vocab));
    context.push_back(drawn.back());
    ++generated;
    if (Contains(generation.stop_tokens, drawn.back())) break;
  }
  return drawn;
}

}  // namespace penstock
