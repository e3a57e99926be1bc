#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/engine/engine.h"
#include "shard/base/dtype.h"

namespace penstock {

// What is measured, as it is written on the command line:
//   decode:SEQUENCES:CONTEXT[:TOKENS]   sequences of CONTEXT tokens that draw TOKENS (128) more
//   prefill:TOKENS                      prompts, one after the other
//   attention:SEQUENCES:CONTEXT         the attention of one row each, over caches that are cold
//   encode:FILE                         an encoder's texts: a line of token ids each
struct SpeedCase {
  enum class Kind : uint8_t { kDecode, kPrefill, kAttention, kEncode };
  Kind kind = Kind::kDecode;
  std::string name;
  int32_t sequences = 1;
  int32_t context = 0;  // of a prefill: the prompt
  int32_t tokens = 128;
  std::vector<std::vector<int32_t>> texts{};
};

// InvalidArgument says what is wrong with it.
absl::StatusOr<SpeedCase> ParseSpeedCase(const std::string& text);

// Rates of one trial, per second.
struct SpeedTrial {
  double tokens = 0;
  double texts = 0;  // encode
  double bytes = 0;  // of weights and KV cache read: decode, attention
  double flops = 0;  // of the layers' matrix products: prefill
};

// About a second of it. `threads` and `dtype` are those the engine was loaded with.
absl::StatusOr<SpeedTrial> RunDecodeCase(Engine& engine, DType dtype, const SpeedCase& what,
                                         uint64_t seed);
absl::StatusOr<SpeedTrial> RunPrefillCase(Engine& engine, const SpeedCase& what, uint64_t seed);
absl::StatusOr<SpeedTrial> RunEncodeCase(Engine& engine, const SpeedCase& what);
absl::StatusOr<SpeedTrial> RunAttentionCase(const ModelSpec& spec, DType dtype, int threads,
                                            const SpeedCase& what);

// Elements of all weights that a decode step multiplies with, and of the layers' alone.
double StepWeights(const ModelSpec& spec);
double LayerWeights(const ModelSpec& spec);

}  // namespace penstock
