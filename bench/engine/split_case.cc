// The split that suits each phase.

#include <algorithm>
#include <cstdio>

#include "bench/engine/cases.h"
#include "bench/engine/trials.h"
#include "bench/engine/workloads.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

struct Phases {
  PrefillTrial prefill;
  DecodeTrial decode;
};

absl::StatusOr<Phases> RunPhases(Engine& engine, int trials) {
  uint64_t seed = 500;
  Phases phases;
  const auto prefill = [&] { return RunPrefill(engine, ++seed, 4, 512); };
  ASSIGN_OR_RETURN(const auto prefills, RunTrials<PrefillTrial>(1, prefill));
  const auto decode = [&] { return RunDecode(engine, ++seed, 16, trials); };
  ASSIGN_OR_RETURN(const auto decodes, RunTrials<std::vector<DecodeTrial>>(1, decode));
  phases.prefill = prefills.back();
  phases.decode = decodes.back()[decodes.back().size() / 2];
  return phases;
}

int LayersOf(const Engine& engine, int stage) {
  return static_cast<int>(engine.plan.Layers(stage).size());
}

// The time of a layer and of what the last stage does beside its layers, in one unit.
struct Costs {
  double layer = 0, head = 0;
};

Costs CostsFrom(const Engine& engine, const StageUse& use) {
  const double layer = use.busy.front() / LayersOf(engine, 0);
  return {layer, std::max(0.0, use.busy.back() - LayersOf(engine, 1) * layer)};
}

int BestFirst(const Costs& costs, int layers) {
  const auto slowest = [&](int first) {
    return std::max(first * costs.layer, (layers - first) * costs.layer + costs.head);
  };
  int best = 1;
  for (int first = 2; first < layers; ++first)
    if (slowest(first) < slowest(best)) best = first;
  return best;
}

void Print(const char* name, const Engine& engine, const Phases& phases) {
  std::printf(
      "  %-22s %2d + %-2d  prefill: idle %4.1f %%, imbalance %.3f, %6.0f tokens/s; "
      "decode: idle %4.1f %%, imbalance %.3f, %6.0f tokens/s\n",
      name, LayersOf(engine, 0), LayersOf(engine, 1), 100 * phases.prefill.use.MeanIdle(),
      phases.prefill.use.Imbalance(), phases.prefill.rate, 100 * phases.decode.use.MeanIdle(),
      phases.decode.use.Imbalance(), phases.decode.rate);
  std::fflush(stdout);
}

absl::Status RunSplit(const PipelineBench& bench, const char* name, int first) {
  const int layers = bench.two.spec.layers;
  ASSIGN_OR_RETURN(Engine engine, LoadEngine(bench.checkpoint,
                                             {.pipeline = 2, .layers = {first, layers - first}}));
  ASSIGN_OR_RETURN(const Phases phases, RunPhases(engine, bench.trials));
  Print(name, engine, phases);
  return absl::OkStatus();
}

}  // namespace

absl::Status MeasureSplits(PipelineBench& bench) {
  const int layers = bench.two.spec.layers;
  std::printf("Splits of %d layers; prefill of 4 prompts of 512 tokens, decode of 2 x 16\n",
              layers);
  ASSIGN_OR_RETURN(const Phases phases, RunPhases(bench.two, bench.trials));
  Print("automatic", bench.two, phases);
  const Costs prefill = CostsFrom(bench.two, phases.prefill.use);
  const Costs decode = CostsFrom(bench.two, phases.decode.use);
  std::printf("  the head weighs %.1f layers in prefill, %.1f in decode\n",
              prefill.head / prefill.layer, decode.head / decode.layer);
  RETURN_IF_ERROR(RunSplit(bench, "best for prefill", BestFirst(prefill, layers)));
  return RunSplit(bench, "best for decode", BestFirst(decode, layers));
}

}  // namespace penstock
