#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bench/engine/engine.h"
#include "shard/checkpoint/checkpoint.h"

namespace penstock {

// A figure that must not be above (or below) its goal.
struct Gate {
  std::string figure;  // "decode idle 6.1 %"
  std::string goal;
  bool ok = false;
};

// What the cases measure: two stages, and one rank on one core to compare them with. Every case
// prints its figures, medians of `trials`, and adds its gates.
struct PipelineBench {
  const Checkpoint& checkpoint;
  int trials = 3;
  Engine one;
  Engine two;
  Engine tensor{};          // two tensor ranks; loaded when a case wants them
  double prefill_rate = 0;  // of two stages, tokens per second, once MeasurePrefill() has run
  std::vector<Gate> gates{};
};

// One prompt of 512 tokens in m chunks: stages idle for 1/(m+1) of the time at best.
absl::Status MeasureChunks(PipelineBench& bench);
// Eight such prompts together, against one rank.
absl::Status MeasurePrefill(PipelineBench& bench);
// Two groups of 8 and of 16 sequences that all decode.
absl::Status MeasureDecode(PipelineBench& bench);
// Two tensor ranks against one rank: prompts, what decoding spends on communication, and whether
// they, two stages and one rank draw the same tokens.
absl::Status MeasureTensor(PipelineBench& bench);
// Requests that come at random times.
absl::Status MeasureArrivals(PipelineBench& bench);
// A prompt of 2,048 tokens that comes while 8 sequences decode.
absl::Status MeasureLongPrompt(PipelineBench& bench);
// Which split each phase would like best, from measured times; and what it brings.
absl::Status MeasureSplits(PipelineBench& bench);

}  // namespace penstock
