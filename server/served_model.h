#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/text/tokenizer.h"
#include "shard/api/executor.h"
#include "shard/model/model_spec.h"

namespace penstock {

// What a client may ask for at most. Beyond it a request is refused with INVALID_ARGUMENT.
struct RequestLimits {
  uint32_t max_samples = 16;  // n
  int max_stop_strings = 16;
  size_t max_stop_bytes = 1024;  // of one stop string
  int max_stop_tokens = 256;
  int max_logit_bias = 1024;  // entries
  uint32_t max_logprobs = 20;
  double max_queue_timeout_seconds = 1e6;
  size_t max_cache_salt_bytes = 256;
  int max_inputs = 256;                // of a one-shot call
  size_t max_encode_bytes = 16 << 20;  // text of a one-shot call, a query with each document
  int64_t prompt_bytes_per_token =
      64;  // text longer than this times max_context is not even encoded
};

// "generate", "embed" or "classify". `encoder`: ModelSpec::encoder.
inline absl::string_view ModelKind(const std::optional<EncoderSpec>& encoder) {
  if (!encoder) return "generate";
  return encoder->pooling == Pooling::kClassify ? "classify" : "embed";
}

// The model as the door sees it: names and numbers that requests are checked against. Immutable;
// the tokenizer is borrowed.
struct ServedModel {
  std::string name;
  const Tokenizer& tokenizer;
  ExecutorInfo info;
  std::vector<int32_t> eos_tokens;
  RequestLimits limits = {};
  std::optional<EncoderSpec> encoder = {};  // set: a one-shot model
  std::string dtype = {};                   // of the weights, "bf16"
  int32_t max_queued = 0;                   // requests that may wait for a step
  std::string path = {};                    // of the checkpoint

  // Ids below it are known to the tokenizer and to the model (whose embedding may be padded).
  int32_t vocab() const { return std::min(tokenizer.vocab_size(), info.vocab); }
  int64_t most_text_bytes() const { return limits.prompt_bytes_per_token * info.max_context; }
  absl::string_view kind() const { return ModelKind(encoder); }
};

}  // namespace penstock
