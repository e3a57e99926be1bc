// Two tensor ranks.

#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "bench/engine/cases.h"
#include "bench/engine/trials.h"
#include "bench/engine/workloads.h"
#include "shard/base/status_macros.h"
#include "shard/comm/local_comm.h"

namespace penstock {
namespace {

constexpr int32_t kPrompt = 512;

// Seconds of an all-reduce of so many floats when both ranks come at the same time.
double AllReduceSeconds(int64_t elements) {
  constexpr int kCount = 2000;
  const auto group = MakeLocalGroup("bench", 2, {.max_elements = elements});
  double seconds = 0;
  const auto reduce = [&](Communicator& comm) {
    std::vector<float> values(static_cast<size_t>(elements));
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kCount; ++i)
      comm.AllReduceSum({values.data(), 1, elements, elements, DType::kF32});
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    if (comm.rank() == 0) seconds = time.count() / kCount;
  };
  std::thread other([&] { reduce(*group[1]); });
  reduce(*group[0]);
  other.join();
  return seconds;
}

absl::Status MeasurePrompts(PipelineBench& bench) {
  ASSIGN_OR_RETURN(const auto pairs,
                   RunPrefillPairs(bench.one, bench.tensor, bench.trials, 600, 4, kPrompt));
  const double gain = Median(pairs, [](const PrefillPair& pair) { return pair.gain(); });
  std::printf("Prompts of 512 tokens on two tensor ranks\n  %.1f tokens/s, one rank %.1f: %.2f x\n",
              Median(pairs, [](const PrefillPair& pair) { return pair.two.rate; }),
              Median(pairs, [](const PrefillPair& pair) { return pair.one.rate; }), gain);
  bench.gates.push_back(
      {absl::StrFormat("tensor prefill %.2f x one rank", gain), "1.75", gain >= 1.75});
  return absl::OkStatus();
}

// Of a step of one sequence: waiting for the other rank, be it late for whatever reason, and what
// the sums take by themselves.
absl::Status MeasureCommunication(PipelineBench& bench) {
  const auto trial = [&] { return RunDecode(bench.tensor, 700, 1, bench.trials); };
  ASSIGN_OR_RETURN(const auto runs, RunTrials<std::vector<DecodeTrial>>(1, trial));
  const auto median = [&](auto figure) { return Median(runs.back(), figure); };
  const double step = median([](const DecodeTrial& part) { return part.step; });
  const double wait = median([](const DecodeTrial& part) { return part.wait; });
  const int sums = 2 * bench.tensor.spec.layers;
  const double sum = AllReduceSeconds(bench.tensor.spec.hidden);
  const double own = sums * sum / step;
  std::printf(
      "One sequence that decodes on two tensor ranks\n"
      "  %.2f ms a step; %.2f %% waiting, %d sums of %.2f us %.2f %%; %.1f tokens/s\n",
      step * 1e3, 100 * wait, sums, sum * 1e6, 100 * own,
      median([](const DecodeTrial& part) { return part.rate; }));
  bench.gates.push_back(
      {absl::StrFormat("communication %.2f %% of a decode step", 100 * own), "1 %", own <= 0.01});
  return absl::OkStatus();
}

absl::Status CompareTokens(PipelineBench& bench) {
  constexpr int kPrompts = 4, kTokens = 64;
  std::vector<std::vector<int32_t>> drawn;
  for (Engine* engine : {&bench.one, &bench.two, &bench.tensor}) {
    ASSIGN_OR_RETURN(drawn.emplace_back(), RunGreedy(*engine, 800, kPrompts, kTokens));
  }
  const auto different = [&](size_t engine) {
    int count = 0;
    for (size_t i = 0; i < drawn[0].size(); ++i) count += drawn[0][i] != drawn[engine][i];
    return count;
  };
  const int stages = different(1), tensor = different(2);
  std::printf("%d greedy tokens: %d differ on two stages, %d on two tensor ranks\n",
              kPrompts * kTokens, stages, tensor);
  bench.gates.push_back(
      {absl::StrFormat("%d greedy tokens differ", stages + tensor), "0", stages + tensor == 0});
  return absl::OkStatus();
}

}  // namespace

absl::Status MeasureTensor(PipelineBench& bench) {
  ASSIGN_OR_RETURN(bench.tensor, LoadEngine(bench.checkpoint, {.tensor = 2}));
  RETURN_IF_ERROR(MeasurePrompts(bench));
  RETURN_IF_ERROR(MeasureCommunication(bench));
  return CompareTokens(bench);
}

}  // namespace penstock
