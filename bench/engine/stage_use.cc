#include "bench/engine/stage_use.h"

#include <algorithm>
#include <numeric>

namespace penstock {
namespace {

double Sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// Seconds of a stage's computing that fall into the window, as if it were even over the step.
double BusyWithin(const StageTiming& stage, Window window) {
  const int64_t begin = std::max(stage.begin, window.begin), end = std::min(stage.end, window.end);
  if (begin >= end) return 0;
  const double part =
      static_cast<double>(end - begin) / static_cast<double>(stage.end - stage.begin);
  return part * static_cast<double>(stage.busy()) * 1e-9;
}

}  // namespace

Window WindowOf(std::span<const StepReport> steps) {
  if (steps.empty()) return {};
  return {steps.front().stages.front().begin, steps.back().stages.back().end};
}

double StageUse::MeanIdle() const {
  return 1 - Sum(busy) / (seconds * static_cast<double>(busy.size()));
}

double StageUse::Imbalance() const {
  return *std::max_element(busy.begin(), busy.end()) * static_cast<double>(busy.size()) / Sum(busy);
}

StageUse MeasureUse(std::span<const StepReport> steps, Window window) {
  StageUse use{.seconds = window.seconds(), .busy = {}};
  if (!steps.empty()) use.busy.resize(steps.front().stages.size());
  for (const StepReport& step : steps)
    for (size_t stage = 0; stage < step.stages.size(); ++stage)
      use.busy[stage] += BusyWithin(step.stages[stage], window);
  return use;
}

StepRange FindSteadyDecode(std::span<const StepReport> steps, int32_t decodes) {
  StepRange best, run;
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool steady = steps[i].prefill_tokens == 0 && steps[i].decode_tokens == decodes;
    if (!steady) run = {i + 1, i + 1};
    if (steady) run.end = i + 1;
    if (run.end - run.begin > best.end - best.begin) best = run;
  }
  return best;
}

}  // namespace penstock
