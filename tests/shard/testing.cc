#include "tests/shard/testing.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace penstock {
namespace {

template <typename T>
T Must(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "test set-up: %s\n", value.status().ToString().c_str());
  std::abort();
}

}  // namespace

TestModel::TestModel(const TestGroupOptions& options)
    : path(std::string(PENSTOCK_TEST_DATA "/") + options.model),
      checkpoint(Must(Checkpoint::Open(path))),
      spec(Must(ParseModelSpec(checkpoint->config()))) {
  ShardPlanOptions cut;
  cut.tensor = options.tensor;
  cut.pipeline = options.pipeline;
  plan = Must(ShardPlan::Create(spec, cut));
  MemoryPlanOptions wanted;
  wanted.dtype = options.dtype;
  wanted.kv_dtype = options.dtype;
  wanted.max_context = std::min(spec.max_context, 64);
  wanted.max_sequences = options.max_sequences;
  wanted.max_step_tokens = options.max_step_tokens;
  wanted.kv_tokens = spec.encoder ? 0 : options.kv_tokens;
  cpu.threads = 1;
  const auto backend = Must(MakeCpuBackend(cpu));
  memory = Must(PlanMemory(spec, plan, wanted, *backend));
  if (options.vocab > 0) memory.info.vocab = options.vocab;
}

std::unique_ptr<Executor> LoadTestGroup(const TestGroupOptions& options) {
  const TestModel model(options);
  ShardGroupOptions group;
  group.memory = model.memory;
  group.step_timeout = options.step_timeout;
  group.cpu = model.cpu;
  return Must(LoadShardGroup(*model.checkpoint, model.spec, model.plan, group, nullptr));
}

StepBatch MakeStep(const Executor& executor, int64_t step, const std::vector<Piece>& pieces) {
  StepBatch batch;
  batch.step = step;
  batch.epoch = executor.epoch();
  batch.return_logits = true;
  const int32_t size = executor.info().kv_block_size;
  int32_t slot = 0;
  for (const Piece& piece : pieces) {
    batch.seq_begin.push_back(static_cast<int32_t>(batch.tokens.size()));
    batch.block_begin.push_back(static_cast<int32_t>(batch.blocks.size()));
    batch.context_lens.push_back(piece.end);
    batch.blocks.insert(batch.blocks.end(), piece.blocks.begin(), piece.blocks.end());
    SlotAssignment assignment;
    assignment.slot = slot;
    assignment.params.temperature = 0;
    batch.assignments.push_back(assignment);
    for (int32_t i = piece.begin; i < piece.end; ++i) {
      SampleRow sample;
      sample.row = static_cast<int32_t>(batch.tokens.size());
      sample.slot = slot;
      sample.position = i + 1;
      batch.samples.push_back(sample);
      batch.tokens.push_back(piece.tokens[static_cast<size_t>(i)]);
      batch.positions.push_back(i);
      batch.slots.push_back(piece.blocks[static_cast<size_t>(i / size)] * size + i % size);
    }
    ++slot;
  }
  batch.seq_begin.push_back(static_cast<int32_t>(batch.tokens.size()));
  batch.block_begin.push_back(static_cast<int32_t>(batch.blocks.size()));
  return batch;
}

StepBatch MakeEncodeStep(const Executor& executor, int64_t step,
                         const std::vector<WholeSequence>& sequences) {
  StepBatch batch;
  batch.step = step;
  batch.epoch = executor.epoch();
  batch.kind = StepKind::kEncode;
  batch.seq_begin = {0};
  for (const WholeSequence& sequence : sequences) {
    const auto length = static_cast<int32_t>(sequence.tokens.size());
    const std::vector<int32_t>& types = sequence.token_types;
    batch.tokens.insert(batch.tokens.end(), sequence.tokens.begin(), sequence.tokens.end());
    batch.token_types.insert(batch.token_types.end(), types.begin(), types.end());
    for (int32_t i = 0; i < length; ++i) batch.positions.push_back(i);
    batch.seq_begin.push_back(batch.seq_begin.back() + length);
    batch.context_lens.push_back(length);
  }
  return batch;
}

std::vector<int32_t> RandomTokens(int count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(random() % 100));
  return tokens;
}

std::vector<float> LogitsOf(Executor& executor, const std::vector<int32_t>& tokens, int chunk,
                            int in_flight, const std::vector<int32_t>& blocks) {
  std::vector<float> logits;
  int64_t step = 0;
  int waiting = 0;
  const auto wait = [&] {
    const StepResult result = Must(executor.Wait());
    logits.insert(logits.end(), result.logits.begin(), result.logits.end());
    --waiting;
  };
  for (int32_t begin = 0; begin < std::ssize(tokens); begin += chunk) {
    if (waiting == in_flight) wait();
    const auto end = std::min<int32_t>(begin + chunk, static_cast<int32_t>(tokens.size()));
    executor.Launch(MakeStep(executor, step++, {{tokens, begin, end, blocks}}));
    ++waiting;
  }
  while (waiting > 0) wait();
  if (!executor.Restart().ok()) std::abort();
  return logits;
}

}  // namespace penstock
