// remote_bench MODEL PROGRAM TRIALS STEPS WORKERS...: what a step costs more when its two pipeline
// stages are not threads of this process: processes that share memory, and, given the addresses of
// two running `penstock shard`s, the same over TCP. One sequence decodes, one step at a time, so
// that nothing hides behind anything else; trials alternate.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "shard/remote/remote_group.h"
#include "shard/remote/worker_places.h"
#include "shard/shard_group.h"

namespace penstock {
namespace {

constexpr int32_t kContext = 64;  // where decoding begins

template <typename T>
T Must(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "remote_bench: %s\n", value.status().ToString().c_str());
  std::exit(2);
}

int64_t Now() {
  return int64_t{
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count()};
}

// A step's time and where it went, in microseconds.
struct Parts {
  double step = 0;
  double out = 0;      // from launch until the first stage begins
  double between = 0;  // from the first stage's end until the second has its input
  double back = 0;     // from the last stage's end until the result is there
  double stages = 0;   // the stages' own time
};

double MedianOf(const std::vector<Parts>& parts, double Parts::*field) {
  std::vector<double> values;
  for (const Parts& part : parts) values.push_back(part.*field);
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Parts Median(const std::vector<Parts>& parts) {
  Parts median;
  for (const auto field :
       {&Parts::step, &Parts::out, &Parts::between, &Parts::back, &Parts::stages})
    median.*field = MedianOf(parts, field);
  return median;
}

// A group of ranks, and a sequence that decodes in it.
class Decoder {
 public:
  Decoder(std::string name, std::unique_ptr<Executor> executor)
      : name_(std::move(name)), executor_(std::move(executor)) {}

  const std::string& name() const { return name_; }

  Parts Trial(int steps) {
    std::vector<Parts> parts;
    Run(0, kContext);
    for (int i = 0; i < steps; ++i) parts.push_back(Run(kContext + i, 1));
    return Median(parts);
  }

 private:
  Parts Run(int32_t begin, int32_t count) {
    StepBatch batch;
    batch.step = step_++;
    batch.epoch = executor_->epoch();
    const int32_t size = executor_->info().kv_block_size, end = begin + count;
    for (int32_t i = begin; i < end; ++i) {
      batch.tokens.push_back(i % 1000);
      batch.positions.push_back(i);
      batch.slots.push_back(i);
    }
    batch.seq_begin = {0, count};
    batch.context_lens = {end};
    for (int32_t block = 0; block * size < end; ++block) batch.blocks.push_back(block);
    batch.block_begin = {0, static_cast<int32_t>(batch.blocks.size())};
    SlotAssignment assignment;
    assignment.params.temperature = 0;
    if (begin == 0) batch.assignments.push_back(assignment);
    batch.samples.push_back({count - 1, 0, end, false});
    const int64_t launched = Now();
    executor_->Launch(std::move(batch));
    const StepResult result = Must(executor_->Wait());
    const int64_t done = Now();
    const StageTiming &first = result.stages.front(), &last = result.stages.back();
    constexpr double kMicro = 1e-3;
    return {
        .step = static_cast<double>(done - launched) * kMicro,
        .out = static_cast<double>(first.begin - launched) * kMicro,
        .between = static_cast<double>(last.begin - first.end) * kMicro,
        .back = static_cast<double>(done - last.end) * kMicro,
        .stages = static_cast<double>(first.end - first.begin + last.end - last.begin) * kMicro};
  }

  const std::string name_;
  const std::unique_ptr<Executor> executor_;
  int64_t step_ = 0;
};

struct Setup {
  std::string path;
  std::unique_ptr<Checkpoint> checkpoint;
  ModelSpec spec;
  ShardPlan plan;
  MemoryPlan memory;
  CpuOptions cpu;
};

Setup Prepare(const std::string& path) {
  Setup setup;
  setup.path = path;
  setup.checkpoint = Must(Checkpoint::Open(path));
  setup.spec = Must(ParseModelSpec(setup.checkpoint->config()));
  ShardPlanOptions cut;
  cut.pipeline = 2;
  setup.plan = Must(ShardPlan::Create(setup.spec, cut));
  setup.cpu.threads = 1;
  MemoryPlanOptions wanted;
  wanted.max_context = std::min(1024, setup.spec.max_context);
  wanted.max_sequences = 4;
  wanted.kv_tokens = 2 * wanted.max_context;
  setup.memory = Must(PlanMemory(setup.spec, setup.plan, wanted, *Must(MakeCpuBackend(setup.cpu))));
  return setup;
}

std::unique_ptr<Executor> LoadRemote(const Setup& setup, const std::string& program,
                                     const std::string& workers) {
  RemoteGroupOptions options;
  options.memory = setup.memory;
  options.model_path = setup.path;
  options.cpu = setup.cpu;
  options.worker.build = PENSTOCK_VERSION;
  options.worker.program = program;
  if (!workers.empty()) options.places = Must(ParseWorkerPlaces(workers, 2, 1, 0));
  return Must(LoadRemoteGroup(*setup.checkpoint, setup.spec, setup.plan, options, nullptr));
}

// What is not the stages' own computing.
double Around(const Parts& parts) { return parts.out + parts.between + parts.back; }

void Print(const std::string& name, const Parts& parts, const Parts& base) {
  std::printf("%-28s %8.0f %8.0f   %8.0f %8.0f %8.0f %9.0f\n", name.c_str(), parts.step,
              parts.stages, parts.out, parts.between, parts.back, Around(parts) - Around(base));
}

int Run(const std::string& path, const std::string& program, int trials, int steps,
        const std::string& workers) {
  const Setup setup = Prepare(path);
  std::vector<std::unique_ptr<Decoder>> decoders;
  ShardGroupOptions threads;
  threads.memory = setup.memory;
  threads.cpu = setup.cpu;
  for (const char* name : {"threads of one process", "the same, loaded again"})
    decoders.push_back(std::make_unique<Decoder>(
        name, Must(LoadShardGroup(*setup.checkpoint, setup.spec, setup.plan, threads, nullptr))));
  decoders.push_back(
      std::make_unique<Decoder>("processes, shared memory", LoadRemote(setup, program, "")));
  if (!workers.empty())
    decoders.push_back(std::make_unique<Decoder>("processes, TCP on loopback",
                                                 LoadRemote(setup, program, workers)));
  std::vector<std::vector<Parts>> results(decoders.size());
  for (int trial = 0; trial < trials; ++trial)
    for (size_t i = 0; i < decoders.size(); ++i) results[i].push_back(decoders[i]->Trial(steps));

  // The stages' own time differs by where the system puts their memory, as the second group of
  // threads shows; the overhead is in what lies around it.
  std::printf("%-28s %8s %8s   %8s %8s %8s %9s   us, medians\n", "two stages, one sequence", "step",
              "stages", "out", "between", "back", "overhead");
  const Parts base = Median(results[0]);
  for (size_t i = 0; i < decoders.size(); ++i) Print(decoders[i]->name(), Median(results[i]), base);
  for (size_t i = 2; i < decoders.size(); ++i) {
    const double overhead = Around(Median(results[i])) - Around(base);
    std::printf("gate: %.0f us %s (goal <= 300 us): %s\n", overhead, i == 2 ? "shm" : "tcp",
                overhead <= 300 ? "ok" : "short");
  }
  return 0;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  int trials = 0, steps = 0;
  if (argc < 5 || !absl::SimpleAtoi(argv[3], &trials) || !absl::SimpleAtoi(argv[4], &steps)) {
    std::fprintf(stderr, "usage: remote_bench MODEL PROGRAM TRIALS STEPS [HOST:PORT,HOST:PORT]\n");
    return 2;
  }
  return penstock::Run(argv[1], argv[2], trials, steps, argc > 5 ? argv[5] : "");
}
