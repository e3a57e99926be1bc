#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/bench/length_distribution.h"
#include "cli/bench/trace_file.h"

namespace penstock {

// One text to generate from or to embed, in the form that the workload asks for.
struct PromptInput {
  std::vector<int32_t> tokens;
  std::string text;
};

struct PlannedRequest {
  int64_t index = 0;  // below 0: warm-up
  std::vector<PromptInput> inputs;
  int64_t prompt_tokens = 0;  // of all inputs; words, where prompts are text
  int32_t output_tokens = 0;
};

// What is asked of the server. A request depends on the seed and its index alone, so two runs with
// the same settings ask the same, in whatever order requests end. Immutable.
class Workload {
 public:
  struct Options {
    uint64_t seed = 0;
    bool as_text = false;  // words of a small list, of about a token each, instead of random ids
    int32_t vocab = 1000;  // ids are below
    int32_t inputs = 1;
    LengthDistribution prompt_tokens = LengthDistribution::Fixed(128);  // of each input
    LengthDistribution output_tokens = LengthDistribution::Fixed(64);
    int32_t shared_prefix = 0;    // so many first tokens are the same in all inputs
    std::vector<TraceRow> trace;  // not empty: its lengths instead, from the top again when it ends
  };
  explicit Workload(Options options);

  const std::vector<TraceRow>& trace() const { return options_.trace; }
  PlannedRequest Plan(int64_t index) const;

 private:
  PromptInput MakeInput(int32_t length, RandomStream& random) const;
  int32_t DrawPiece(RandomStream& random) const;

  const Options options_;
  std::vector<int32_t> prefix_;  // ids, or places in the list of words
};

}  // namespace penstock
