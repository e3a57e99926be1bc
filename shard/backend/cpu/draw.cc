#include "shard/backend/cpu/draw.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace penstock {
namespace {

uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

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

// The fewest most likely whose weights reach top_p of `total`. Sorts only as far as it must.
void KeepTopP(double top_p, double total, std::vector<Candidate>& candidates) {
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

// Fills scratch.weights, sums and most.
void ComputeWeights(const float* logits, int32_t vocab, float highest, float scale, float least,
                    const KernelTable& kernels, DrawScratch& scratch) {
  const auto size = static_cast<size_t>(vocab);
  const size_t blocks = (size + kWeightBlock - 1) / kWeightBlock;
  if (scratch.weights.size() < size) scratch.weights.resize(size);
  scratch.sums.resize(blocks);
  scratch.most.resize(blocks);
  kernels.weigh({.logits = logits,
                 .count = vocab,
                 .highest = highest,
                 .scale = scale,
                 .least = least,
                 .weights = scratch.weights.data(),
                 .sums = scratch.sums.data(),
                 .most = scratch.most.data()});
}

double Total(const std::vector<float>& sums) {
  double total = 0;
  for (const float sum : sums) total += sum;
  return total;
}

// As PickCandidate over all weights: first the block, then the place in it.
int32_t PickWeight(double u, int32_t vocab, const DrawScratch& scratch) {
  const double target = u * Total(scratch.sums);
  double sum = 0;
  size_t block = 0, last = 0;  // last: that has a weight
  for (; block < scratch.sums.size(); ++block) {
    if (scratch.most[block] > 0) last = block;
    if (sum + scratch.sums[block] > target) break;
    sum += scratch.sums[block];
  }
  if (block == scratch.sums.size()) sum -= scratch.sums[block = last];
  const auto begin = static_cast<int32_t>(block) * kWeightBlock;
  const int32_t end = std::min(begin + kWeightBlock, vocab);
  int32_t picked = kNoToken;
  for (int32_t i = begin; i < end; ++i) {
    const float weight = scratch.weights[static_cast<size_t>(i)];
    if (weight == 0) continue;
    picked = i;
    sum += weight;
    if (sum > target) break;
  }
  return picked;  // the block's last, where its own sum was rounded up
}

// A weight that at least k reach, 0 when the blocks do not tell: k of them have one so large each.
float LeastOfTopK(size_t k, DrawScratch& scratch) {
  if (k > scratch.most.size()) return 0;
  scratch.order = scratch.most;
  const auto kth = scratch.order.begin() + static_cast<int64_t>(k) - 1;
  std::nth_element(scratch.order.begin(), kth, scratch.order.end(), std::greater<>());
  return *kth;
}

// All that top_k and top_p may keep.
void ListCandidates(const float* logits, int32_t vocab, float least, DrawScratch& scratch) {
  scratch.candidates.clear();
  scratch.candidates.reserve(static_cast<size_t>(vocab));
  for (size_t block = 0; block < scratch.most.size(); ++block) {
    if (scratch.most[block] < least || scratch.most[block] == 0) continue;
    const auto begin = static_cast<int32_t>(block) * kWeightBlock;
    for (int32_t i = begin; i < std::min(begin + kWeightBlock, vocab); ++i) {
      const float weight = scratch.weights[static_cast<size_t>(i)];
      if (weight >= least && weight > 0) scratch.candidates.push_back({logits[i], weight, i});
    }
  }
}

}  // namespace

double UniformNumber(uint64_t seed, int32_t sample_index, int32_t position) {
  uint64_t hash = Mix(seed);
  hash = Mix(hash ^ static_cast<uint32_t>(sample_index));
  hash = Mix(hash ^ static_cast<uint32_t>(position));
  return static_cast<double>(hash >> 11) * 0x1p-53;
}

int32_t MostLikely(const float* logits, int32_t vocab, const KernelTable& kernels) {
  const float best = kernels.highest_finite(logits, vocab);
  if (!(best >= -std::numeric_limits<float>::max())) return kNoToken;
  return static_cast<int32_t>(std::find(logits, logits + vocab, best) - logits);
}

int32_t DrawToken(const float* logits, int32_t vocab, const SamplingParams& params, double u,
                  const KernelTable& kernels, DrawScratch& scratch) {
  const float highest = kernels.highest_finite(logits, vocab);
  if (!(highest >= -std::numeric_limits<float>::max())) return kNoToken;
  const float scale = std::min(1 / params.temperature, std::numeric_limits<float>::max());
  ComputeWeights(logits, vocab, highest, scale, params.min_p, kernels, scratch);
  const bool top_k = params.top_k > 0 && params.top_k < vocab;
  const bool top_p = params.top_p < 1;
  if (!top_k && !top_p) return PickWeight(u, vocab, scratch);

  double total = Total(scratch.sums);
  float least = 0;
  if (top_k) least = LeastOfTopK(static_cast<size_t>(params.top_k), scratch);
  // Weights below this make up less than 1 - top_p together, so they are beyond the cut.
  if (!top_k) least = static_cast<float>((1 - double{params.top_p}) * total / vocab * (1 - 1e-6));
  ListCandidates(logits, vocab, least, scratch);
  std::vector<Candidate>& candidates = scratch.candidates;
  if (top_k) {
    KeepTopK(static_cast<size_t>(params.top_k), candidates);
    total = SumOfWeights(candidates);
  }
  if (top_p) KeepTopP(params.top_p, total, candidates);
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  return PickCandidate(u, candidates);
}

void AddLogprobs(const float* logits, int32_t vocab, int32_t count, const KernelTable& kernels,
                 DrawScratch& scratch, SampledToken& result) {
  const float highest = kernels.highest_finite(logits, vocab);
  ComputeWeights(logits, vocab, highest, 1, 0, kernels, scratch);
  const double log_sum = double{highest} + std::log(Total(scratch.sums));
  const auto logprob = [&](int32_t id) { return static_cast<float>(logits[id] - log_sum); };
  result.logprob = logprob(result.token);

  std::vector<Candidate>& candidates = scratch.candidates;
  candidates.clear();
  if (count <= 0) return;
  const auto wanted = static_cast<size_t>(count);
  ListCandidates(logits, vocab, LeastOfTopK(wanted, scratch), scratch);
  if (candidates.size() < wanted) {  // some have no weight that can be told from 0
    candidates.clear();
    for (int32_t i = 0; i < vocab; ++i)
      if (std::isfinite(logits[i])) candidates.push_back({logits[i], 0, i});
  }
  KeepTopK(wanted, candidates);
  for (const Candidate& c : candidates) result.top.push_back({c.id, logprob(c.id)});
}

}  // namespace penstock
