#include "bench/engine/workloads.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"
#include "bench/engine/one_stage_view.h"
#include "bench/engine/trials.h"
#include "shard/base/status_macros.h"

namespace penstock {

constexpr int32_t kPrompt = 512;
constexpr int32_t kGreedyPrompt = 32;
constexpr int32_t kDecodePrompt = 128, kDecodeOutput = 128;
constexpr size_t kDroppedRounds = 6;  // at each end of a run of decode steps

namespace {

void AddWait(std::span<const StepReport> steps, DecodeTrial& trial) {
  double taken = 0, waited = 0;
  for (const StepReport& step : steps) {
    const StageTiming& stage = step.stages.front();
    taken += static_cast<double>(stage.end - stage.begin) * 1e-9;
    waited += static_cast<double>(stage.wait) * 1e-9;
  }
  trial.step = taken / static_cast<double>(steps.size());
  trial.wait = waited / taken;
}

}  // namespace

SchedulerOptions BenchOptions() {
  SchedulerOptions options;
  options.prefix_cache = false;
  options.max_decode_delay = absl::ZeroDuration();
  return options;
}

absl::StatusOr<PrefillTrial> RunPrefill(Engine& engine, uint64_t seed, int prompts, int32_t chunk,
                                        bool as_told) {
  SchedulerOptions options = BenchOptions();
  options.prefill_chunk = chunk;
  std::vector<Arrival> arrivals;
  for (int i = 0; i < prompts; ++i) {
    const uint64_t own = seed * 1000 + static_cast<uint64_t>(i);
    arrivals.push_back({MakeRequest(own, engine.spec.vocab, kPrompt, 1)});
  }
  OneStageView view(*engine.executor);
  Executor& executor = as_told ? static_cast<Executor&>(view) : *engine.executor;
  ASSIGN_OR_RETURN(const RunLog log, Drive(options, executor, arrivals));
  PrefillTrial trial;
  trial.steps = static_cast<int32_t>(log.steps.size());
  trial.use = MeasureUse(log.steps, WindowOf(log.steps));
  trial.rate = prompts * kPrompt / trial.use.seconds;
  return trial;
}

absl::StatusOr<std::vector<PrefillPair>> RunPrefillPairs(Engine& one, Engine& two, int trials,
                                                         uint64_t seed, int prompts,
                                                         int32_t chunk) {
  return RunTrials<PrefillPair>(trials, [&]() -> absl::StatusOr<PrefillPair> {
    PrefillPair pair;
    ASSIGN_OR_RETURN(pair.one, RunPrefill(one, ++seed, 2, chunk));
    ASSIGN_OR_RETURN(pair.two, RunPrefill(two, ++seed, prompts, chunk));
    return pair;
  });
}

absl::StatusOr<std::vector<DecodeTrial>> RunDecode(Engine& engine, uint64_t seed, int32_t group,
                                                   int windows) {
  const int32_t stages = engine.plan.pipeline();
  std::vector<Arrival> arrivals;
  for (int32_t i = 0; i < stages * group; ++i) {
    const uint64_t own = seed * 1000 + static_cast<uint64_t>(i);
    arrivals.push_back({MakeRequest(own, engine.spec.vocab, kDecodePrompt, kDecodeOutput)});
  }
  ASSIGN_OR_RETURN(const RunLog log, Drive(BenchOptions(), *engine.executor, arrivals));
  const StepRange steady = FindSteadyDecode(log.steps, group);
  const size_t dropped = kDroppedRounds * static_cast<size_t>(stages);
  const size_t parts = static_cast<size_t>(windows);
  if (steady.end - steady.begin < 2 * dropped + 8 * parts)
    return absl::InternalError(absl::StrCat("only ", steady.end - steady.begin, " of ",
                                            log.steps.size(), " steps have ", group,
                                            " decoding sequences each"));
  const auto done = [&](size_t step) { return log.steps[step].stages.back().end; };
  const size_t begin = steady.begin + dropped, steps = steady.end - steady.begin - 2 * dropped;
  std::vector<DecodeTrial> trials;
  for (size_t i = 0; i < parts; ++i) {
    const size_t from = begin + steps * i / parts, to = begin + steps * (i + 1) / parts;
    DecodeTrial trial;
    trial.use = MeasureUse(log.steps, {done(from), done(to)});
    trial.rate = static_cast<double>(to - from) * group / trial.use.seconds;
    AddWait(std::span(log.steps).subspan(from, to - from), trial);
    trials.push_back(trial);
  }
  return trials;
}

absl::StatusOr<std::vector<int32_t>> RunGreedy(Engine& engine, uint64_t seed, int prompts,
                                               int32_t output) {
  std::vector<Arrival> arrivals;
  for (int i = 0; i < prompts; ++i)
    arrivals.push_back({MakeRequest(seed * 1000 + static_cast<uint64_t>(i), engine.spec.vocab,
                                    kGreedyPrompt, output)});
  ASSIGN_OR_RETURN(const RunLog log, Drive(BenchOptions(), *engine.executor, arrivals));
  std::vector<int32_t> tokens;
  for (const StreamLog& stream : log.streams)
    tokens.insert(tokens.end(), stream.ids.begin(), stream.ids.end());
  return tokens;
}

}  // namespace penstock
