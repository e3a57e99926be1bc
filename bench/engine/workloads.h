#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/engine/drive.h"
#include "bench/engine/engine.h"
#include "bench/engine/stage_use.h"

namespace penstock {

// The loads that several cases put on an engine.

// Tokens over time, from the first stage's first input to the last stage's last output.
struct PrefillTrial {
  int32_t steps = 0;
  double rate = 0;  // tokens per second
  StageUse use;
};

// `prompts` of 512 tokens each at once, in chunks of at most `chunk`. `as_told`: the chunks are
// exactly those, whatever would suit the pipeline.
absl::StatusOr<PrefillTrial> RunPrefill(Engine& engine, uint64_t seed, int prompts, int32_t chunk,
                                        bool as_told = false);

// The same on one rank, two prompts, and on another engine: what its ranks gain.
struct PrefillPair {
  PrefillTrial one, two;
  double gain() const { return two.rate / one.rate; }
};
absl::StatusOr<std::vector<PrefillPair>> RunPrefillPairs(Engine& one, Engine& two, int trials,
                                                         uint64_t seed, int prompts, int32_t chunk);

struct DecodeTrial {
  double rate = 0;  // tokens per second
  StageUse use;
  double step = 0;  // seconds from a step's input to its output, in the first stage
  double wait = 0;  // share of that in which its first rank waited for the stage's others
};

// stages x `group` sequences of 128 to 256 tokens. Of the time in which all of them decode, the
// beginning and the end are dropped and the rest is cut into `windows`.
absl::StatusOr<std::vector<DecodeTrial>> RunDecode(Engine& engine, uint64_t seed, int32_t group,
                                                   int windows);

// The tokens that greedy decoding draws after `prompts` of 32 tokens each, `output` of them, all
// together: those of one prompt behind those of another.
absl::StatusOr<std::vector<int32_t>> RunGreedy(Engine& engine, uint64_t seed, int prompts,
                                               int32_t output);

// No prefix is found again, and prompts hold decodes up as long as a chunk takes.
SchedulerOptions BenchOptions();

}  // namespace penstock
