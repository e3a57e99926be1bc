#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/checkpoint/checkpoint.h"
#include "shard/memory_plan.h"
#include "shard/model/model_spec.h"
#include "shard/model/shard_plan.h"
#include "shard/shard_group.h"

namespace penstock {

// What to serve and how to cut it.
struct ModelOptions {
  std::string path;         // a Hugging Face folder or a GGUF file
  std::string served_name;  // empty: the last part of the path, without ".gguf"
  int tensor = 1;
  int pipeline = 1;
  int replicas = 1;               // of the whole model, each tensor x pipeline ranks
  std::vector<int> layers;        // of each stage; empty: balanced
  std::string dtype = "auto";     // auto: as stored
  std::string kv_dtype = "auto";  // auto: as the weights
  int32_t max_context = 0;        // 0: the model's, or less if only less fits
  int32_t max_sequences = 64;
  int32_t max_step_tokens = 0;  // 0: 512, of an encoder 4096 or more
  int32_t kv_tokens = 0;        // of a replica's whole cache; 0: from the memory available
  bool elsewhere = false;  // the ranks are on other hosts, which look at their memory themselves
  CpuOptions cpu;
};

// Everything that is decided before a byte of weights is loaded.
struct ServingPlan {
  std::unique_ptr<Checkpoint> checkpoint;
  std::string model_name;
  ModelSpec spec;
  int replicas = 1;
  ShardPlan shards;   // of each replica
  MemoryPlan memory;  // of each replica; `available` is its part of the machine's
};

// Opens the checkpoint and plans ranks and memory; loads nothing. Errors name the file, the option
// or the numbers that do not fit, with what would.
absl::StatusOr<ServingPlan> PlanServing(const ModelOptions& options);

// A table for people: one line per rank with its layers, heads and bytes, then the limits.
std::string FormatPlan(const ServingPlan& plan);

// "1.50 GiB".
std::string FormatBytes(int64_t bytes);

}  // namespace penstock
