#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/checkpoint/checkpoint.h"
#include "shard/model/model_spec.h"

namespace penstock {

// What the reference implementation says about a tiny model of tests/data/models.
struct Golden {
  std::vector<int32_t> input_ids;
  std::vector<float> logits;  // [input_ids, vocab]
  std::vector<int32_t> greedy;
};

std::vector<std::string> GoldenModels();  // folder names, sorted
std::string GoldenFolder(const std::string& name);
Golden ReadGolden(const std::string& name);

struct RunOptions {
  int tensor = 1;             // ranks, as threads
  DType dtype = DType::kF32;  // of weights and of the KV cache
  int32_t max_context = 0;    // 0: the model's
  int64_t chunk = 1 << 20;    // most tokens per step
};

// The logits at every position of one sequence, [tokens, vocab]: loads every rank, runs the
// sequence in one or more steps, and checks that all ranks agree on the logits.
absl::StatusOr<std::vector<float>> RunModel(const Checkpoint& checkpoint, const ModelSpec& spec,
                                            const std::vector<int32_t>& tokens,
                                            const RunOptions& options);

// The worst row's max |a - b| / max |b|; infinite when sizes differ or a is not finite.
double RelativeError(const std::vector<float>& a, const std::vector<float>& b, int32_t columns);

}  // namespace penstock
