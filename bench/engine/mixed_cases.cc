// Prompts and decoding together.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <span>

#include "bench/engine/cases.h"
#include "bench/engine/trials.h"
#include "bench/engine/workloads.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

// When at least `least` requests were submitted and not finished.
std::vector<Window> TimesWithOpen(const std::vector<StreamLog>& streams, int least) {
  std::vector<std::pair<int64_t, int>> changes;
  for (const StreamLog& stream : streams) {
    changes.emplace_back(stream.submitted, 1);
    changes.emplace_back(stream.tokens.back(), -1);
  }
  std::sort(changes.begin(), changes.end());
  std::vector<Window> times;
  int open = 0;
  for (const auto& [time, change] : changes) {
    if (change > 0 && open + 1 == least) times.push_back({time, time});
    if (change < 0 && open == least) times.back().end = time;
    open += change;
  }
  return times;
}

double MeanIdle(std::span<const StepReport> steps, const std::vector<Window>& windows) {
  StageUse sum;
  for (const Window& window : windows) {
    const StageUse use = MeasureUse(steps, window);
    sum.seconds += use.seconds;
    sum.busy.resize(use.busy.size());
    for (size_t stage = 0; stage < use.busy.size(); ++stage) sum.busy[stage] += use.busy[stage];
  }
  return sum.MeanIdle();
}

struct ArrivalTrial {
  double with_one = 0, with_two = 0;  // idle while so many requests were there
  double seconds = 0;
};

// Prompts of 64 to 320 tokens, answers of 24 to 48; as many prompt tokens per second as two stages
// could feed, so that sometimes one request is there and sometimes several.
absl::StatusOr<ArrivalTrial> RunArrivals(PipelineBench& bench, uint64_t seed) {
  constexpr int kRequests = 12;
  std::mt19937_64 random(seed);
  const auto between = [&](int32_t least, int32_t most) {
    return least + static_cast<int32_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  std::vector<Arrival> arrivals;
  for (int i = 0; i < kRequests; ++i) {
    const int32_t prompt = between(64, 320), output = between(24, 48);
    const double uniform = (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;
    arrivals.push_back({MakeRequest(random(), bench.two.spec.vocab, prompt, output),
                        absl::Seconds(-std::log(uniform) * 192 / bench.prefill_rate)});
  }
  SchedulerOptions options = BenchOptions();
  options.max_decode_delay = SchedulerOptions().max_decode_delay;
  ASSIGN_OR_RETURN(const RunLog log, Drive(options, *bench.two.executor, arrivals));
  return ArrivalTrial{.with_one = MeanIdle(log.steps, TimesWithOpen(log.streams, 1)),
                      .with_two = MeanIdle(log.steps, TimesWithOpen(log.streams, 2)),
                      .seconds = WindowOf(log.steps).seconds()};
}

struct LongPromptTrial {
  double idle = 0;
  double round = 0;          // seconds: a step on each stage, of those with prompt tokens
  std::vector<double> gaps;  // seconds between tokens of those that decode, ascending
  double seconds = 0;        // until the prompt's first token
  double decode_gap = 0;     // before it came
};

double Quantile(const std::vector<double>& ascending, double q) {
  const auto last = static_cast<double>(ascending.size() - 1);
  return ascending[static_cast<size_t>(std::llround(q * last))];
}

// Gaps between a stream's tokens that overlap the window, or lie before it.
std::vector<double> Gaps(std::span<const StreamLog> streams, Window window, bool before) {
  std::vector<double> gaps;
  for (const StreamLog& stream : streams)
    for (size_t i = 1; i < stream.tokens.size(); ++i) {
      const int64_t begin = stream.tokens[i - 1], end = stream.tokens[i];
      const bool wanted = before ? end <= window.begin : end > window.begin && begin < window.end;
      if (wanted) gaps.push_back(static_cast<double>(end - begin) * 1e-9);
    }
  std::sort(gaps.begin(), gaps.end());
  return gaps;
}

LongPromptTrial Evaluate(const RunLog& log) {
  const Window window{log.streams.back().submitted, log.streams.back().tokens.front()};
  LongPromptTrial trial;
  trial.seconds = window.seconds();
  trial.idle = MeasureUse(log.steps, window).MeanIdle();
  std::vector<double> slowest;
  for (const StepReport& step : log.steps) {
    if (step.prefill_tokens == 0 || step.stages.front().begin < window.begin) continue;
    double longest = 0;
    for (const StageTiming& stage : step.stages)
      longest = std::max(longest, static_cast<double>(stage.end - stage.begin) * 1e-9);
    slowest.push_back(longest * static_cast<double>(step.stages.size()));
  }
  trial.round = Median(slowest, [](double seconds) { return seconds; });
  const std::span streams(log.streams.data(), log.streams.size() - 1);
  trial.gaps = Gaps(streams, window, false);
  const std::vector<double> before = Gaps(streams, window, true);
  trial.decode_gap = before.empty() ? 0 : Quantile(before, 0.5);
  return trial;
}

absl::StatusOr<LongPromptTrial> RunLongPrompt(PipelineBench& bench, uint64_t seed) {
  constexpr int kStreams = 8;
  std::vector<Arrival> arrivals;
  for (uint64_t i = 0; i < kStreams; ++i)
    arrivals.push_back({MakeRequest(seed + i, bench.two.spec.vocab, 128, 160)});
  arrivals.push_back({MakeRequest(seed + kStreams, bench.two.spec.vocab, 2048, 1),
                      absl::ZeroDuration(), kStreams * 24});
  SchedulerOptions options = BenchOptions();
  options.max_decode_delay = SchedulerOptions().max_decode_delay;
  ASSIGN_OR_RETURN(const RunLog log, Drive(options, *bench.two.executor, arrivals));
  return Evaluate(log);
}

}  // namespace

absl::Status MeasureArrivals(PipelineBench& bench) {
  uint64_t seed = 300;
  const auto trial = [&] { return RunArrivals(bench, ++seed); };
  ASSIGN_OR_RETURN(const auto trials, RunTrials<ArrivalTrial>(1, trial));
  const ArrivalTrial& last = trials.back();
  std::printf(
      "Twelve requests at random times, %.1f s\n"
      "  idle %.1f %% while two or more were there, %.1f %% while any was\n",
      last.seconds, 100 * last.with_two, 100 * last.with_one);
  return absl::OkStatus();
}

absl::Status MeasureLongPrompt(PipelineBench& bench) {
  uint64_t seed = 400;
  const auto trial = [&] { return RunLongPrompt(bench, seed += 10); };
  ASSIGN_OR_RETURN(const auto trials, RunTrials<LongPromptTrial>(1, trial));
  const LongPromptTrial& last = trials.back();
  std::printf(
      "A prompt of 2,048 tokens among eight that decode, %.1f s to its first token\n"
      "  idle %.1f %%; between tokens p50 %.0f ms, p99 %.0f ms (before: %.0f ms); "
      "a round of chunk and decodes %.0f ms: p99 %.2f x\n",
      last.seconds, 100 * last.idle, 1e3 * Quantile(last.gaps, 0.5),
      1e3 * Quantile(last.gaps, 0.99), 1e3 * last.decode_gap, 1e3 * last.round,
      Quantile(last.gaps, 0.99) / last.round);
  return absl::OkStatus();
}

}  // namespace penstock
