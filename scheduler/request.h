#pragma once

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "shard/api/sampling.h"

namespace penstock {

// One sequence to generate: tokens in, tokens out; text stays in server/. A call that asks for n
// samples submits n of these.
struct GenerateRequest {
  std::vector<int32_t> prompt;     // not empty
  std::vector<int32_t> generated;  // tokens a resuming client already holds; count as output
  int32_t max_tokens = 0;          // output tokens, `generated` included
  int32_t min_tokens = 0;          // no stop token may be drawn before
  std::vector<int32_t>
      stop_tokens;  // end the sequence; the last token of the stream. Empty: ignore EOS
  SamplingParams sampling;
  int32_t sample_index = 0;
  absl::Time arrival;

  // The smaller goes first. A request that waits ages: SchedulerOptions::ageing makes up for one
  // level, so nobody starves.
  int32_t priority = 0;
  absl::Time deadline = absl::InfiniteFuture();        // of the last token
  absl::Time start_deadline = absl::InfiniteFuture();  // of leaving the queue for the first time
  // Only requests with equal salts share cached prompts (a tenant's; the samples of one call, when
  // it does not want to share with others).
  uint64_t cache_salt = 0;
  bool keep_cached = true;  // whether its blocks may serve requests that come later
};

// Why a stream ended well. Anything else is a non-OK status.
enum class FinishReason : uint8_t { kNone, kStop, kLength };

}  // namespace penstock
