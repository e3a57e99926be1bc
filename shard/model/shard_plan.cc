#include "shard/model/shard_plan.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

constexpr int64_t kUnit = 32;  // rows that backends like to have together

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// `extent` in `parts` contiguous ranges of whole units, the first ones larger by up to one unit.
std::vector<Range> Split(int64_t extent, int64_t unit, int parts) {
  const int64_t units = CeilDiv(extent, unit);
  std::vector<Range> out;
  int64_t at = 0;
  for (int i = 0; i < parts; ++i) {
    const int64_t size = (units / parts + (i < units % parts ? 1 : 0)) * unit;
    out.push_back({at, std::min(at + size, extent)});
    at = out.back().end;
  }
  return out;
}

// The largest power of two up to kUnit such that each part gets at least one unit.
int64_t UnitFor(int64_t extent, int parts) {
  int64_t unit = kUnit;
  while (unit > 1 && CeilDiv(extent, unit) < parts) unit /= 2;
  return unit;
}

// The size of all vocabulary parts but the last; 0 when the last one would be empty.
int64_t VocabPart(int64_t vocab, int parts) {
  for (int64_t unit = kUnit; unit >= 1; unit /= 2) {
    const int64_t part = CeilDiv(CeilDiv(vocab, parts), unit) * unit;
    if (part * (parts - 1) < vocab) return part;
  }
  return 0;
}

bool TensorWorks(const ModelSpec& spec, int tensor) {
  return tensor >= 1 && tensor <= spec.heads && tensor <= spec.intermediate &&
         VocabPart(spec.vocab, tensor) > 0;
}

// "1-9" or "1-4, 6".
std::string WorkingTensorDegrees(const ModelSpec& spec) {
  std::vector<std::string> runs;
  for (int begin = 1; begin <= spec.heads; ++begin) {
    if (!TensorWorks(spec, begin)) continue;
    int end = begin;
    while (TensorWorks(spec, end + 1)) ++end;
    runs.push_back(begin == end ? absl::StrCat(begin) : absl::StrCat(begin, "-", end));
    begin = end;
  }
  return absl::StrJoin(runs, ", ");
}

absl::Status CheckDegrees(const ModelSpec& spec, const ShardPlanOptions& options) {
  if (!TensorWorks(spec, options.tensor))
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor degree ", options.tensor, " cannot work for ", spec.heads, " heads, width ",
        spec.intermediate, " and ", spec.vocab, " tokens; possible: ", WorkingTensorDegrees(spec)));
  if (options.pipeline < 1 || options.pipeline > spec.layers)
    return absl::InvalidArgumentError(absl::StrCat("pipeline degree ", options.pipeline,
                                                   " cannot work for ", spec.layers,
                                                   " layers; possible: 1-", spec.layers));
  return absl::OkStatus();
}

std::vector<Range> RangesOf(const std::vector<int>& counts) {
  std::vector<Range> out;
  int64_t at = 0;
  for (const int count : counts) {
    out.push_back({at, at + count});
    at += count;
  }
  return out;
}

absl::StatusOr<std::vector<Range>> ExplicitLayers(const ModelSpec& spec,
                                                  const ShardPlanOptions& options) {
  const std::vector<int>& layers = options.layers;
  const bool positive = std::all_of(layers.begin(), layers.end(), [](int n) { return n > 0; });
  const int64_t sum = std::accumulate(layers.begin(), layers.end(), int64_t{0});
  if (positive && std::ssize(layers) == options.pipeline && sum == spec.layers)
    return RangesOf(layers);
  return absl::InvalidArgumentError(
      absl::StrCat("layers per stage ", absl::StrJoin(layers, ","), ": expected ", options.pipeline,
                   " numbers of at least 1 that add up to ", spec.layers));
}

// What a layer, and the head behind the last one, take of a step's time, in numbers of weights. A
// step that decodes is bound by reading the weights, the head's like all others; one that feeds
// prompts by multiplying with them, and the head multiplies the few rows that draw a token only.
// Looking rows up in the embedding takes no time in either.
struct Costs {
  double layer, head;
};

Costs CostsOf(const ModelSpec& spec) {
  const double hidden = spec.hidden;
  const double attention = 2.0 * (spec.heads + spec.kv_heads) * spec.head_dim * hidden;
  // An encoder's MLP has no gate, and its ends are little beside a layer.
  if (spec.encoder) return {attention + 2.0 * spec.intermediate * hidden, 0};
  return {attention + 3.0 * spec.intermediate * hidden, spec.vocab * hidden};
}

// A split with `first` and `last` layers in the outer stages and the others spread evenly over
// `inner` stages.
struct OuterLayers {
  int layers, inner, first, last;
};

// The slowest stage over the mean, and the sum of squares as a measure of evenness.
std::tuple<double, double> RatePhase(const Costs& costs, const OuterLayers& split) {
  const auto& [layers, inner, first, last] = split;
  const double mean = (layers * costs.layer + costs.head) / (inner + 2);
  const double begin = first * costs.layer / mean;
  const double end = (last * costs.layer + costs.head) / mean;
  double slowest = std::max(begin, end), squares = begin * begin + end * end;
  if (inner > 0) {
    const int rest = layers - first - last, larger = rest % inner;
    const double small = (rest / inner) * costs.layer / mean;
    const double large = (rest / inner + 1) * costs.layer / mean;
    slowest = std::max(slowest, larger > 0 ? large : small);
    squares += larger * large * large + (inner - larger) * small * small;
  }
  return {slowest, squares};
}

// One split serves both phases: what counts is the one that it suits worse.
std::tuple<double, double> Rate(const Costs& costs, const OuterLayers& split) {
  const auto [decode, decode_squares] = RatePhase(costs, split);
  const auto [prefill, prefill_squares] = RatePhase({costs.layer, 0}, split);
  return {std::max(decode, prefill), decode_squares + prefill_squares};
}

// All layers cost the same, so trying every pair of outer stages tries every split that matters.
std::vector<Range> BalancedLayers(const ModelSpec& spec, const ShardPlanOptions& options) {
  const int layers = spec.layers, inner = options.pipeline - 2;
  if (options.pipeline == 1) return {{0, layers}};
  const Costs costs = CostsOf(spec);
  std::tuple<double, double> best{};
  std::vector<int> counts;
  for (int first = 1; first < layers; ++first) {
    const int least = inner > 0 ? 1 : layers - first;
    for (int last = least; last <= layers - first - inner; ++last) {
      const auto rating = Rate(costs, {layers, inner, first, last});
      if (!counts.empty() && rating >= best) continue;
      best = rating;
      counts = {first, last};
    }
  }
  std::vector<int> stages{counts[0]};
  for (const Range& part : Split(layers - counts[0] - counts[1], 1, inner))
    stages.push_back(static_cast<int>(part.size()));
  stages.push_back(counts[1]);
  return RangesOf(stages);
}

}  // namespace

absl::StatusOr<ShardPlan> ShardPlan::Create(const ModelSpec& spec,
                                            const ShardPlanOptions& options) {
  RETURN_IF_ERROR(CheckDegrees(spec, options));
  ShardPlan plan;
  plan.tensor_ = options.tensor;
  plan.pipeline_ = options.pipeline;
  plan.layers_ = BalancedLayers(spec, options);
  if (!options.layers.empty()) {
    ASSIGN_OR_RETURN(plan.layers_, ExplicitLayers(spec, options));
  }
  plan.heads_ = Split(spec.heads, 1, options.tensor);
  for (const Range& heads : plan.heads_)
    plan.kv_heads_.push_back({heads.begin / spec.group(), (heads.end - 1) / spec.group() + 1});
  const int64_t unit = UnitFor(spec.intermediate, options.tensor);
  plan.intermediate_ = Split(spec.intermediate, unit, options.tensor);
  plan.vocab_part_ = VocabPart(spec.vocab, options.tensor);
  for (int64_t begin = 0; begin < spec.vocab; begin += plan.vocab_part_)
    plan.vocab_.push_back({begin, std::min<int64_t>(begin + plan.vocab_part_, spec.vocab)});
  return plan;
}

}  // namespace penstock
