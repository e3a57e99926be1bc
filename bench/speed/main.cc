// What the engine does in a second, without a network, as JSON lines for scripts to compare.
//
//   speed_bench [--model M] [--dtype D] [--compute C] [--threads N] [--tensor N] [--pipeline N]
//               [--trials N] [--most N] CASE...
//
// M is a random model by its shape ("135m", the default, or "1.1b") or a checkpoint's path; cases
// are in speed_case.h. Memory bandwidth is read before and after each trial. A trial is kept when
// the two differ by at most 7 % and others used at most 5 % of the machine; there are --trials (3)
// kept ones of each case, or --most (5 times as many) in all. The first line is of the
// load, when a case needs one.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "bench/engine/trials.h"
#include "bench/speed/speed_case.h"
#include "bench/support/random_checkpoint.h"
#include "nlohmann/json.hpp"
#include "shard/backend/cpu/machine_limits.h"
#include "shard/base/cpus.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMostDrift = 0.07;  // of the memory bandwidth during a trial
constexpr int kBandwidthRuns = 3;

struct Arguments {
  std::string model = "135m", dtype = "auto";
  int trials = 3, most = 0;
  EngineOptions engine{.threads = 0};
  std::vector<SpeedCase> cases;
};

absl::Status ParseOption(const std::string& name, const std::string& value, Arguments* arguments) {
  const std::map<std::string, std::string*> texts = {{"--model", &arguments->model},
                                                     {"--dtype", &arguments->dtype},
                                                     {"--compute", &arguments->engine.compute}};
  const std::map<std::string, int*> numbers = {{"--threads", &arguments->engine.threads},
                                               {"--tensor", &arguments->engine.tensor},
                                               {"--pipeline", &arguments->engine.pipeline},
                                               {"--trials", &arguments->trials},
                                               {"--most", &arguments->most}};
  if (const auto text = texts.find(name); text != texts.end()) {
    *text->second = value;
    return absl::OkStatus();
  }
  const auto number = numbers.find(name);
  if (number == numbers.end())
    return absl::InvalidArgumentError(absl::StrCat("there is no option ", name));
  if (!absl::SimpleAtoi(value, number->second) || *number->second < 1)
    return absl::InvalidArgumentError(absl::StrCat(name, ": \"", value, "\" is no such number"));
  return absl::OkStatus();
}

absl::StatusOr<Arguments> Parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    if (text == "--json") continue;  // there is no other format
    if (text.starts_with("--")) {
      if (i + 1 == argc) return absl::InvalidArgumentError(absl::StrCat(text, " needs a value"));
      RETURN_IF_ERROR(ParseOption(text, argv[++i], &arguments));
      continue;
    }
    ASSIGN_OR_RETURN(arguments.cases.emplace_back(), ParseSpeedCase(text));
  }
  if (arguments.most == 0) arguments.most = 5 * arguments.trials;
  EngineOptions& engine = arguments.engine;
  if (engine.threads == 0)
    engine.threads = std::max(1, AvailableCpus() / (engine.tensor * engine.pipeline));
  engine.max_context = 0;
  engine.max_sequences = 1;
  engine.kv_tokens = 0;
  for (const SpeedCase& each : arguments.cases) {
    const int32_t length = each.context + each.tokens;
    engine.max_context = std::max(engine.max_context, length);
    engine.max_sequences = std::max(engine.max_sequences, each.sequences);
    if (each.kind == SpeedCase::Kind::kEncode) {
      engine.max_context = each.context;
      engine.max_sequences = 256;
      engine.max_step_tokens = 4096;
      continue;
    }
    if (each.kind != SpeedCase::Kind::kAttention)
      engine.kv_tokens = std::max(engine.kv_tokens, each.sequences * (length + 16));
  }
  if (engine.max_step_tokens == 512)
    engine.kv_tokens = std::max(engine.kv_tokens, engine.max_context + 16);
  return arguments;
}

absl::StatusOr<DType> PickDType(const std::string& name, const ModelSpec& spec) {
  if (name == "auto") return spec.stored_dtype;
  return ParseDType(name);
}

double ResidentBytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    double kib = 0;
    if (word == "VmRSS:" && status >> kib) return kib * 1024;
  }
  return 0;
}

double SampleBandwidth(const EngineOptions& engine) {
  const int threads = std::min(AvailableCpus(), engine.threads * engine.tensor * engine.pipeline);
  return MeasureReadBandwidth(threads, kBandwidthRuns);
}

absl::StatusOr<SpeedTrial> RunCase(Engine& engine, const EngineOptions& options,
                                   const SpeedCase& what, uint64_t seed) {
  switch (what.kind) {
    case SpeedCase::Kind::kDecode: return RunDecodeCase(engine, options.dtype, what, seed);
    case SpeedCase::Kind::kPrefill: return RunPrefillCase(engine, what, seed);
    case SpeedCase::Kind::kEncode: return RunEncodeCase(engine, what);
    case SpeedCase::Kind::kAttention:
      return RunAttentionCase(engine.spec, options.dtype, options.threads, what);
  }
  return absl::InternalError("unreachable");
}

void Print(const Json& line) {
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

// One kept trial, or what is left of `most` attempts.
absl::Status MeasureTrial(Engine& engine, const Arguments& arguments, const SpeedCase& what,
                          int trial, int* most) {
  for (bool keep = false; !keep && *most > 0; --*most) {
    const double before = SampleBandwidth(arguments.engine);
    const ForeignLoad load;
    ASSIGN_OR_RETURN(const SpeedTrial result,
                     RunCase(engine, arguments.engine, what, static_cast<uint64_t>(trial) + 1));
    const double foreign = load.Share();
    const double after = SampleBandwidth(arguments.engine);
    const double bandwidth = (before + after) / 2;
    keep = std::abs(after - before) <= kMostDrift * bandwidth && foreign <= kMostForeign;
    Print({{"case", what.name},
           {"trial", trial},
           {"kept", keep},
           {"tokens_per_s", result.tokens},
           {"texts_per_s", result.texts},
           {"gbytes_per_s", result.bytes / 1e9},
           {"of_bandwidth", result.bytes / bandwidth},
           {"gflops", result.flops / 1e9},
           {"bandwidth_before", before / 1e9},
           {"bandwidth_after", after / 1e9},
           {"foreign", foreign}});
  }
  return absl::OkStatus();
}

// Case by case in turns, so that trials of the same number have seen about the same machine.
absl::Status MeasureAll(Engine& engine, const Arguments& arguments) {
  std::vector<int> most(arguments.cases.size(), arguments.most);
  for (int trial = 0; trial < arguments.trials; ++trial)
    for (size_t i = 0; i < arguments.cases.size(); ++i)
      RETURN_IF_ERROR(MeasureTrial(engine, arguments, arguments.cases[i], trial, &most[i]));
  return absl::OkStatus();
}

absl::Status Load(const Checkpoint& checkpoint, const EngineOptions& options, Engine* engine) {
  const auto begin = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(*engine, LoadEngine(checkpoint, options));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  Print({{"case", "load"},
         {"model", checkpoint.path()},
         {"dtype", std::string(Name(options.dtype))},
         {"compute", options.compute},
         {"threads", options.threads},
         {"tensor", options.tensor},
         {"pipeline", options.pipeline},
         {"seconds", seconds.count()},
         {"weight_bytes", engine->weight_bytes},
         {"planned_bytes", engine->planned_bytes},
         {"resident_bytes", ResidentBytes()}});
  return absl::OkStatus();
}

absl::Status Run(Arguments arguments) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint, OpenModel(arguments.model));
  ASSIGN_OR_RETURN(const ModelSpec spec, ParseModelSpec(checkpoint->config()));
  ASSIGN_OR_RETURN(arguments.engine.dtype, PickDType(arguments.dtype, spec));
  const auto needs_engine = [](const SpeedCase& each) {
    return each.kind != SpeedCase::Kind::kAttention;
  };
  Engine engine;
  engine.spec = spec;
  if (arguments.cases.empty() || absl::c_any_of(arguments.cases, needs_engine))
    RETURN_IF_ERROR(Load(*checkpoint, arguments.engine, &engine));
  return MeasureAll(engine, arguments);
}

int Main(int argc, char** argv) {
  absl::StatusOr<Arguments> arguments = Parse(argc, argv);
  const absl::Status status = arguments.ok() ? Run(*std::move(arguments)) : arguments.status();
  if (status.ok()) return 0;
  std::fprintf(stderr, "speed_bench: %s\n", std::string(status.message()).c_str());
  return 2;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) { return penstock::Main(argc, argv); }
