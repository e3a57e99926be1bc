// What the engine does without a network: two pipeline stages on two cores, beside one rank on one
// core, through the real scheduler.
//
//   engine_bench [MODEL [TRIALS [CASE ...]]]
//
// MODEL is a random one by its shape ("1.1b", the default, or "135m") or a checkpoint's path. A
// case is chunks, prefill, decode, arrivals, long, splits or tensor; without any, all but the last
// two. The last lines are the gates of the cases that have one: "gate: FIGURE (goal GOAL): ok" or
// "short". Exits with 1 when one is short, 2 on an error.

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "bench/engine/cases.h"
#include "bench/engine/trials.h"
#include "bench/support/random_checkpoint.h"
#include "shard/backend/cpu/machine_limits.h"
#include "shard/base/cpus.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

struct Case {
  const char* name;
  absl::Status (*run)(PipelineBench& bench);
  bool unasked;  // also when no case is named
};

// In this order: arrivals come as fast as the prefill case has measured.
constexpr Case kCases[] = {
    {"chunks", MeasureChunks, true},   {"prefill", MeasurePrefill, true},
    {"decode", MeasureDecode, true},   {"arrivals", MeasureArrivals, true},
    {"long", MeasureLongPrompt, true}, {"splits", MeasureSplits, false},
    {"tensor", MeasureTensor, false},
};

struct Arguments {
  std::string model = "1.1b";
  int trials = 3;
  std::vector<std::string> cases;

  bool Wants(const Case& wanted) const {
    if (cases.empty()) return wanted.unasked;
    return std::find(cases.begin(), cases.end(), wanted.name) != cases.end();
  }
};

absl::StatusOr<Arguments> Parse(int argc, char** argv) {
  Arguments arguments;
  if (argc > 1) arguments.model = argv[1];
  if (argc > 2 && (!absl::SimpleAtoi(argv[2], &arguments.trials) || arguments.trials < 1))
    return absl::InvalidArgumentError(absl::StrCat("\"", argv[2], "\" is no number of trials"));
  for (int i = 3; i < argc; ++i) {
    const std::string name = argv[i];
    const auto known = [&](const Case& each) { return name == each.name; };
    if (std::none_of(std::begin(kCases), std::end(kCases), known))
      return absl::InvalidArgumentError(absl::StrCat("there is no case \"", name, "\""));
    arguments.cases.push_back(name);
  }
  const auto named = [&](const char* name) {
    return std::find(arguments.cases.begin(), arguments.cases.end(), name) != arguments.cases.end();
  };
  if (named("arrivals") && !named("prefill")) arguments.cases.emplace_back("prefill");
  return arguments;
}

std::string FormatSplit(const ShardPlan& plan) {
  std::string text;
  for (int stage = 0; stage < plan.pipeline(); ++stage)
    absl::StrAppend(&text, stage == 0 ? "" : " + ", plan.Layers(stage).size());
  return text;
}

void PrintBandwidth() {
  std::printf("memory %.1f GB/s on one core, %.1f on %d\n", MeasureReadBandwidth(1, 7) / 1e9,
              MeasureReadBandwidth(AvailableCpus(), 7) / 1e9, AvailableCpus());
  std::fflush(stdout);
}

absl::StatusOr<bool> Run(const Arguments& arguments) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint, OpenModel(arguments.model));
  PipelineBench bench{.checkpoint = *checkpoint, .trials = arguments.trials, .one = {}, .two = {}};
  ASSIGN_OR_RETURN(bench.two, LoadEngine(*checkpoint, {.pipeline = 2}));
  ASSIGN_OR_RETURN(bench.one, LoadEngine(*checkpoint, {}));
  std::printf("%s, f16, two stages of %s layers and one rank, a thread each\n",
              checkpoint->path().c_str(), FormatSplit(bench.two.plan).c_str());
  const ForeignLoad load;
  PrintBandwidth();
  for (const Case& each : kCases) {
    if (!arguments.Wants(each)) continue;
    RETURN_IF_ERROR(each.run(bench));
    PrintBandwidth();
  }
  std::printf("others used %.1f %% of the machine\n", 100 * load.Share());
  bool ok = true;
  for (const Gate& gate : bench.gates) {
    std::printf("gate: %s (goal %s): %s\n", gate.figure.c_str(), gate.goal.c_str(),
                gate.ok ? "ok" : "short");
    ok = ok && gate.ok;
  }
  return ok;
}

int Main(int argc, char** argv) {
  const absl::StatusOr<Arguments> arguments = Parse(argc, argv);
  const absl::StatusOr<bool> ok =
      arguments.ok() ? Run(*arguments) : absl::StatusOr<bool>(arguments.status());
  if (ok.ok()) return *ok ? 0 : 1;
  std::fprintf(stderr, "engine_bench: %s\n", std::string(ok.status().message()).c_str());
  return 2;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) { return penstock::Main(argc, argv); }
