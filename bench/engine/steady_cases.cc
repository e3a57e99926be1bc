// Prompts alone, and decoding alone.

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/engine/cases.h"
#include "bench/engine/trials.h"
#include "bench/engine/workloads.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

constexpr int32_t kPrompt = 512;

// Into how many chunks a prompt is cut: by itself a pipeline of two takes four, of equal time; more
// it takes when chunks are bounded, fewer when it is made to.
struct Cut {
  int32_t chunk;
  bool as_told;
};
constexpr Cut kCuts[] = {
    {kPrompt, true}, {kPrompt / 2, true}, {kPrompt, false}, {kPrompt / 8, false}};

double Idle(const PrefillTrial& trial) { return trial.use.MeanIdle(); }

std::string PerStage(const std::vector<DecodeTrial>& trials) {
  std::string text;
  for (size_t stage = 0; stage < trials.front().use.busy.size(); ++stage)
    absl::StrAppendFormat(
        &text, "%s%.1f %%", stage == 0 ? "" : " and ",
        100 * Median(trials, [&](const DecodeTrial& trial) { return trial.use.Idle(stage); }));
  return text;
}

}  // namespace

absl::Status MeasureChunks(PipelineBench& bench) {
  std::printf("One prompt of 512 tokens in m chunks\n   m  idle     1/(m+1)  tokens/s\n");
  double worst = -1;
  using Row = std::vector<PrefillTrial>;
  uint64_t seed = 1;
  const auto trial = [&]() -> absl::StatusOr<Row> {
    Row row;
    for (const Cut& cut : kCuts) {
      ASSIGN_OR_RETURN(row.emplace_back(),
                       RunPrefill(bench.two, ++seed, 1, cut.chunk, cut.as_told));
    }
    return row;
  };
  ASSIGN_OR_RETURN(const std::vector<Row> rows, RunTrials<Row>(bench.trials, trial));
  for (size_t i = 0; i < std::size(kCuts); ++i) {
    const int steps = rows.front()[i].steps;
    const double idle = Median(rows, [&](const Row& row) { return Idle(row[i]); });
    const double rate = Median(rows, [&](const Row& row) { return row[i].rate; });
    std::printf("  %2d  %4.1f %%   %4.1f %%   %7.1f\n", steps, 100 * idle, 100.0 / (steps + 1),
                rate);
    worst = std::max(worst, idle - 1.0 / (steps + 1));
  }
  bench.gates.push_back({absl::StrFormat("prefill idles %+.1f points over 1/(m+1)", 100 * worst),
                         "4 points", worst <= 0.04});
  return absl::OkStatus();
}

absl::Status MeasurePrefill(PipelineBench& bench) {
  ASSIGN_OR_RETURN(const auto pairs,
                   RunPrefillPairs(bench.one, bench.two, bench.trials, 100, 8, kPrompt));
  const auto median = [&](auto figure) { return Median(pairs, figure); };
  const double imbalance = median([](const auto& pair) { return pair.two.use.Imbalance(); });
  const double gain = median([](const auto& pair) { return pair.gain(); });
  bench.prefill_rate = median([](const auto& pair) { return pair.two.rate; });
  std::printf(
      "Eight prompts of 512 tokens, %d chunks\n"
      "  idle %.1f %%, imbalance %.3f, %.1f tokens/s, one rank %.1f: %.2f x\n",
      pairs.front().two.steps, 100 * median([](const auto& pair) { return Idle(pair.two); }),
      imbalance, bench.prefill_rate, median([](const auto& pair) { return pair.one.rate; }), gain);
  bench.gates.push_back(
      {absl::StrFormat("imbalance in prefill %.3f", imbalance), "1.10", imbalance <= 1.10});
  bench.gates.push_back({absl::StrFormat("prefill %.2f x one rank", gain), "1.7", gain >= 1.7});
  return absl::OkStatus();
}

absl::Status MeasureDecode(PipelineBench& bench) {
  for (const int32_t group : {8, 16}) {
    uint64_t seed = 200 + static_cast<uint64_t>(group);
    using Windows = std::vector<DecodeTrial>;
    const auto trial = [&] { return RunDecode(bench.two, ++seed, group, bench.trials); };
    ASSIGN_OR_RETURN(const auto runs, RunTrials<Windows>(1, trial));
    const Windows& windows = runs.back();
    const auto median = [&](auto figure) { return Median(windows, figure); };
    const double idle = median([](const auto& window) { return window.use.MeanIdle(); });
    const double imbalance = median([](const auto& window) { return window.use.Imbalance(); });
    std::printf(
        "Two groups of %d that decode\n"
        "  idle %.1f %% (stages %s), imbalance %.3f, %.1f tokens/s\n",
        group, 100 * idle, PerStage(windows).c_str(), imbalance,
        median([](const auto& window) { return window.rate; }));
    if (group != 8) continue;
    bench.gates.push_back(
        {absl::StrFormat("decode idles %.1f %%", 100 * idle), "10 %", idle <= 0.10});
    bench.gates.push_back(
        {absl::StrFormat("imbalance in decode %.3f", imbalance), "1.10", imbalance <= 1.10});
  }
  return absl::OkStatus();
}

}  // namespace penstock
