// A server as `penstock serve` composes it, around an engine that is loaded once, so that what
// gRPC costs is measured on the very same engine.
//
//   front_bench --model M --tokenizer PATH [--threads N] [--step-us N] [--listen ADDRESS]
//
// M is a random model by its shape ("135m", "1.1b"), a checkpoint's path, or "null": no engine, a
// step takes --step-us. PATH is a checkpoint whose tokenizer turns tokens into text. It prints its
// address as JSON and then answers each line of standard input with a line of JSON:
//   bare CONCURRENCY REQUESTS PROMPT OUTPUT SEED   runs that load without gRPC
// until that ends. Meanwhile `penstock bench --address` may put the same load on it with gRPC.

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "bench/engine/engine.h"
#include "bench/engine/workloads.h"
#include "bench/grpc/closed_loop.h"
#include "bench/grpc/front_end.h"
#include "bench/support/null_executor.h"
#include "bench/support/random_checkpoint.h"
#include "nlohmann/json.hpp"
#include "shard/base/cpus.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  std::string model, tokenizer, listen = "127.0.0.1:0";
  int threads = AvailableCpus(), step_us = 0;
};

absl::StatusOr<Arguments> Parse(int argc, char** argv) {
  Arguments arguments;
  const std::map<std::string, std::string*> texts = {{"--model", &arguments.model},
                                                     {"--tokenizer", &arguments.tokenizer},
                                                     {"--listen", &arguments.listen}};
  const std::map<std::string, int*> numbers = {{"--threads", &arguments.threads},
                                               {"--step-us", &arguments.step_us}};
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    if (const auto text = texts.find(name); text != texts.end()) {
      *text->second = value;
    } else if (const auto number = numbers.find(name); number == numbers.end()) {
      return absl::InvalidArgumentError(absl::StrCat("there is no option ", name));
    } else if (!absl::SimpleAtoi(value, number->second) || *number->second < 0) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": \"", value, "\" is no such number"));
    }
  }
  if (arguments.model.empty() || arguments.tokenizer.empty())
    return absl::InvalidArgumentError("--model and --tokenizer are needed");
  return arguments;
}

ExecutorInfo NullInfo(int32_t vocab) {
  return {.stages = 1,
          .max_in_flight = 2,
          .kv_blocks = 1 << 14,
          .kv_block_size = 16,
          .max_step_tokens = 512,
          .max_sequences = 64,
          .max_context = 4096,
          .vocab = vocab};
}

absl::StatusOr<std::unique_ptr<Executor>> MakeExecutor(const Arguments& arguments, int32_t vocab) {
  if (arguments.model == "null")
    return std::make_unique<NullExecutor>(NullInfo(vocab),
                                          std::chrono::microseconds(arguments.step_us));
  ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint, OpenModel(arguments.model));
  ASSIGN_OR_RETURN(const ModelSpec spec, ParseModelSpec(checkpoint->config()));
  EngineOptions options;
  options.threads = arguments.threads;
  options.dtype = spec.stored_dtype;
  options.max_context = std::min(options.max_context, spec.max_context);
  ASSIGN_OR_RETURN(Engine engine, LoadEngine(*checkpoint, options));
  return std::move(engine.executor);
}

double NearestRank(const std::vector<double>& ascending, double share) {
  const double rank = std::ceil(share * static_cast<double>(ascending.size()));
  return ascending[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

double BusySeconds(const Executor& executor) {
  const PipelineStats stats = executor.Stats();
  return stats.stages.empty() ? 0 : stats.stages.front().busy;
}

absl::StatusOr<Json> Answer(const std::string& line, Generator& generator, const Executor& executor,
                            int32_t vocab) {
  std::istringstream words(line);
  std::string command;
  ClosedLoop load{.vocab = vocab};
  words >> command >> load.concurrency >> load.requests >> load.prompt_tokens >>
      load.output_tokens >> load.seed;
  if (!words || command != "bare")
    return absl::InvalidArgumentError(absl::StrCat("\"", line, "\" is no command"));
  const double busy = BusySeconds(executor);
  ASSIGN_OR_RETURN(const ClosedLoopResult result, RunClosedLoop(generator, load));
  return Json{{"seconds", result.seconds},
              {"tokens_per_s", result.tokens_per_s},
              {"engine_busy", (BusySeconds(executor) - busy) / result.seconds},
              {"ttft_p50", NearestRank(result.ttft, 0.5)},
              {"ttft_p99", NearestRank(result.ttft, 0.99)}};
}

void Print(const Json& line) {
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

absl::Status Run(const Arguments& arguments) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> vocabulary,
                   Checkpoint::Open(arguments.tokenizer));
  ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, Tokenizer::Load(*vocabulary));
  ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor,
                   MakeExecutor(arguments, tokenizer->vocab_size()));
  ASSIGN_OR_RETURN(const std::unique_ptr<FrontEnd> front,
                   FrontEnd::Open(*executor, *tokenizer, BenchOptions(), arguments.listen));
  const int32_t vocab = std::min(tokenizer->vocab_size(), executor->info().vocab);
  Print({{"address", front->address()}, {"vocab", vocab}});
  for (std::string line; std::getline(std::cin, line);) {
    ASSIGN_OR_RETURN(const Json answer, Answer(line, front->generator(), *executor, vocab));
    Print(answer);
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  const absl::StatusOr<Arguments> arguments = Parse(argc, argv);
  const absl::Status status = arguments.ok() ? Run(*arguments) : arguments.status();
  if (status.ok()) return 0;
  std::fprintf(stderr, "front_bench: %s\n", std::string(status.message()).c_str());
  return 2;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) { return penstock::Main(argc, argv); }
