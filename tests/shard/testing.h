#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shard/shard_group.h"

namespace penstock {

struct TestGroupOptions {
  std::string model = "models/llama-uneven";  // a folder of tests/data
  int tensor = 1;
  int pipeline = 1;
  DType dtype = DType::kF32;
  int32_t max_sequences = 64;
  int32_t max_step_tokens = 64;
  int32_t kv_tokens = 1024;  // an encoder has none
  int32_t vocab = 0;         // ids that may be fed and drawn; 0: the model's
  std::chrono::milliseconds step_timeout{20000};
};

// A tiny committed model, planned; a failure ends the test program.
struct TestModel {
  explicit TestModel(const TestGroupOptions& options);

  std::string path;
  std::unique_ptr<Checkpoint> checkpoint;
  ModelSpec spec;
  ShardPlan plan;
  MemoryPlan memory;
  CpuOptions cpu;
};

// A loaded group of one; a failure to load ends the test program.
std::unique_ptr<Executor> LoadTestGroup(const TestGroupOptions& options);

// One sequence's share of a step: tokens begin..end of `tokens`, with the KV in `blocks`.
struct Piece {
  std::vector<int32_t> tokens;  // from position 0
  int32_t begin = 0, end = 0;
  std::vector<int32_t> blocks;
};

// A step over these pieces; the logits of every row come back.
StepBatch MakeStep(const Executor& executor, int64_t step, const std::vector<Piece>& pieces);

// A sequence of an encode step; token_types may be empty.
struct WholeSequence {
  std::vector<int32_t> tokens, token_types;
};
StepBatch MakeEncodeStep(const Executor& executor, int64_t step,
                         const std::vector<WholeSequence>& sequences);

// `count` token ids of a small vocabulary, by seed.
std::vector<int32_t> RandomTokens(int count, unsigned seed);

// Runs `tokens` in chunks, alone; [tokens, vocab] logits. Up to `in_flight` steps at once.
std::vector<float> LogitsOf(Executor& executor, const std::vector<int32_t>& tokens, int chunk,
                            int in_flight, const std::vector<int32_t>& blocks);

}  // namespace penstock
