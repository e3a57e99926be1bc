#include "shard/backend/cpu/draw.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace penstock {
namespace {

uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Of a finite logit not above the highest: others (NaN, infinity) give NaN, 0 or more than 1.
bool IsWeight(float weight) { return weight > 0 && weight <= 1; }

bool MoreLikely(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

double SumOfWeights(const std::vector<Candidate>& candidates) {
  double sum = 0;
  for (const Candidate& c : candidates) sum += c.weight;
  return sum;
}

// The k most likely, most likely first.
void KeepTopK(size_t k, std::vector<Candidate>& candidates) {
  if (k < candidates.size()) {
    std::nth_element(candidates.begin(), candidates.begin() + static_cast<int64_t>(k),
                     candidates.end(), MoreLikely);
    candidates.resize(k);
  }
  std::sort(candidates.begin(), candidates.end(), MoreLikely);
}

// The fewest most likely whose weights reach top_p of all. Sorts only as far as it must.
void KeepTopP(double top_p, std::vector<Candidate>& candidates) {
  const double total = SumOfWeights(candidates);
  // Weights below this make up less than 1 - top_p together, so they are beyond the cut.
  const double least = (1 - top_p) * total / static_cast<double>(candidates.size()) * (1 - 1e-9);
  std::erase_if(candidates, [=](const Candidate& c) { return c.weight < least; });
  const auto begin = candidates.begin();
  double sum = 0;
  size_t sorted = 0;
  for (size_t upto = 64; sorted < candidates.size(); upto *= 4) {
    const size_t next = std::min(upto, candidates.size());
    std::partial_sort(begin + static_cast<int64_t>(sorted), begin + static_cast<int64_t>(next),
                      candidates.end(), MoreLikely);
    for (; sorted < next; ++sorted) {
      sum += candidates[sorted].weight;
      if (sum >= top_p * total) {
        candidates.resize(sorted + 1);
        return;
      }
    }
  }
}

int32_t PickCandidate(double u, const std::vector<Candidate>& candidates) {
  const double target = u * SumOfWeights(candidates);
  double sum = 0;
  for (const Candidate& c : candidates) {
    sum += c.weight;
    if (sum > target) return c.id;
  }
  return candidates.empty() ? kNoToken : candidates.back().id;  // u * sum rounded up to the sum
}

// As PickCandidate over the weights of at least `least`, without a list.
int32_t PickWeight(double u, const std::vector<float>& weights, int32_t vocab, float least) {
  const auto kept = [&](int32_t i) {
    const float w = weights[static_cast<size_t>(i)];
    return IsWeight(w) && w >= least ? double{w} : 0.0;
  };
  double total = 0;
  for (int32_t i = 0; i < vocab; ++i) total += kept(i);
  const double target = u * total;
  double sum = 0;
  int32_t last = kNoToken;
  for (int32_t i = 0; i < vocab; ++i) {
    const double w = kept(i);
    if (w == 0) continue;
    sum += w;
    last = i;
    if (sum > target) break;
  }
  return last;
}

void ComputeWeights(const float* logits, int32_t vocab, float highest, float scale,
                    const KernelTable& kernels, std::vector<float>& weights) {
  if (weights.size() < static_cast<size_t>(vocab)) weights.resize(static_cast<size_t>(vocab));
  kernels.exp_shifted(logits, highest, scale, vocab, weights.data());
}

}  // namespace

double UniformNumber(uint64_t seed, int32_t sample_index, int32_t position) {
  uint64_t hash = Mix(seed);
  hash = Mix(hash ^ static_cast<uint32_t>(sample_index));
  hash = Mix(hash ^ static_cast<uint32_t>(position));
  return static_cast<double>(hash >> 11) * 0x1p-53;
}

int32_t MostLikely(const float* logits, int32_t vocab) {
  constexpr int kLanes = 16;  // independent, so that the compiler uses vectors
  constexpr float kMost = std::numeric_limits<float>::max();
  float highest[kLanes];
  std::fill_n(highest, kLanes, -std::numeric_limits<float>::infinity());
  int32_t i = 0;
  for (; i + kLanes <= vocab; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) {
      const float x = logits[i + lane];
      const float finite = x <= kMost ? x : highest[lane];
      highest[lane] = finite > highest[lane] ? finite : highest[lane];
    }
  for (; i < vocab; ++i)
    if (logits[i] <= kMost && logits[i] > highest[0]) highest[0] = logits[i];
  const float best = *std::max_element(highest, highest + kLanes);
  if (!(best >= -kMost)) return kNoToken;
  return static_cast<int32_t>(std::find(logits, logits + vocab, best) - logits);
}

int32_t DrawToken(const float* logits, int32_t vocab, const SamplingParams& params, double u,
                  const KernelTable& kernels, DrawScratch& scratch) {
  const int32_t best = MostLikely(logits, vocab);
  if (best == kNoToken) return kNoToken;
  const float scale = std::min(1 / params.temperature, std::numeric_limits<float>::max());
  ComputeWeights(logits, vocab, logits[best], scale, kernels, scratch.weights);
  const bool top_k = params.top_k > 0 && params.top_k < vocab;
  const bool top_p = params.top_p < 1;
  if (!top_k && !top_p) return PickWeight(u, scratch.weights, vocab, params.min_p);

  std::vector<Candidate>& candidates = scratch.candidates;
  candidates.clear();
  candidates.reserve(static_cast<size_t>(vocab));
  for (int32_t i = 0; i < vocab; ++i) {
    const float weight = scratch.weights[static_cast<size_t>(i)];
    if (IsWeight(weight) && weight >= params.min_p) candidates.push_back({logits[i], weight, i});
  }
  if (top_k) KeepTopK(static_cast<size_t>(params.top_k), candidates);
  if (top_p) KeepTopP(params.top_p, candidates);
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  return PickCandidate(u, candidates);
}

void AddLogprobs(const float* logits, int32_t vocab, int32_t count, const KernelTable& kernels,
                 DrawScratch& scratch, SampledToken& result) {
  const float highest = logits[MostLikely(logits, vocab)];
  ComputeWeights(logits, vocab, highest, 1, kernels, scratch.weights);
  double sum = 0;
  for (int32_t i = 0; i < vocab; ++i) {
    const float weight = scratch.weights[static_cast<size_t>(i)];
    if (IsWeight(weight)) sum += weight;
  }
  const double log_sum = double{highest} + std::log(sum);
  const auto logprob = [&](int32_t id) { return static_cast<float>(logits[id] - log_sum); };
  result.logprob = logprob(result.token);

  std::vector<Candidate>& candidates = scratch.candidates;
  candidates.clear();
  if (count <= 0) return;
  candidates.reserve(static_cast<size_t>(vocab));
  for (int32_t i = 0; i < vocab; ++i)
    if (std::isfinite(logits[i])) candidates.push_back({logits[i], 0, i});
  KeepTopK(static_cast<size_t>(count), candidates);
  for (const Candidate& c : candidates) result.top.push_back({c.id, logprob(c.id)});
}

}  // namespace penstock
