#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "scheduler/request.h"
#include "scheduler/token_stream.h"
#include "shard/api/sampling.h"

namespace penstock {

// One request's progress. `tokens` holds the prompt and every committed token, so a sequence can be
// recomputed from nothing at any time. Built by Submit(), then owned by the scheduler's thread.
struct Sequence {
  Sequence(GenerateRequest request_in, std::shared_ptr<TokenStream> stream_in);

  const GenerateRequest request;
  const std::shared_ptr<TokenStream> stream;
  uint64_t order = 0;  // of arrival; the smaller is the older

  std::vector<int32_t> tokens;  // prompt, what the client already held, what was committed
  int32_t computed = 0;         // tokens whose KV is written, or will be by a launched step
  int32_t in_flight = 0;        // launched and not committed steps that name it

  std::vector<int32_t> blocks;  // KV blocks in order of position
  int32_t slot = -1;            // while running or retiring
  bool slot_assigned = false;   // the executor has been told what the slot samples

  int32_t failures = 0;  // failed steps that named it since its last committed token
  bool closed = false;   // its stream has ended
  SequenceTimes times;

  // Tokens to feed. 0: the next token is being sampled by a step in flight.
  int32_t pending() const { return static_cast<int32_t>(tokens.size()) - computed; }
  // Past its prompt: only the newest token is to be fed, or being sampled.
  bool decoding() const { return computed > 0 && pending() <= 1; }
  // Output tokens so far, those the client already held included.
  int32_t generated() const { return static_cast<int32_t>(tokens.size() - request.prompt.size()); }
  // Output tokens drawn here.
  int32_t drawn() const { return generated() - static_cast<int32_t>(request.generated.size()); }

  // Whether the output so far is complete. A stop token ends it even where max_tokens does too.
  FinishReason Ending() const;
  // What the executor has to know before it samples from this sequence's slot.
  SlotAssignment Assignment() const;
};

}  // namespace penstock
