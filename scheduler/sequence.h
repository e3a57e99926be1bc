#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <vector>

#include "scheduler/request.h"
#include "scheduler/token_stream.h"
#include "shard/api/sampling.h"

namespace penstock {

// Where a sequence stands among all: the smaller goes first, and the largest gives way first.
// Priority is turned into a later or earlier arrival once and for all, so a sequence that waits
// overtakes by ageing without ever being moved.
struct Precedence {
  int64_t due = 0;  // nanoseconds: arrival + priority * ageing
  uint64_t id = 0;  // among equals by arrival

  friend auto operator<=>(const Precedence&, const Precedence&) = default;
};

// One request's progress. `tokens` holds the prompt and every committed token, so a sequence can be
// recomputed from nothing at any time. Built by Submit(), then owned by the scheduler's thread.
struct Sequence {
  Sequence(GenerateRequest request_in, std::shared_ptr<TokenStream> stream_in);

  const GenerateRequest request;
  const std::shared_ptr<TokenStream> stream;
  Precedence precedence;

  std::vector<int32_t> tokens;  // prompt, what the client already held, what was committed
  int32_t computed = 0;         // tokens whose KV is written, or will be by a launched step
  int32_t in_flight = 0;        // launched and not committed steps that name it

  std::vector<int32_t> blocks;  // KV blocks in order of position, those of the prefix shared
  int32_t indexed = 0;         // of the blocks, from the first: the prefix cache knows the contents
  uint64_t prefix = 0;         // the path to the last of those (PrefixCache::Node)
  int32_t slot = -1;           // while running or retiring
  bool slot_assigned = false;  // the executor has been told what the slot samples

  int32_t failures = 0;  // failed steps that named it since its last committed token
  bool closed = false;   // its stream has ended
  bool padding = false;  // closed, but still computed: static batching only
  SequenceTimes times;

  // Tokens to feed. 0: the next token is being sampled by a step in flight.
  int32_t pending() const { return static_cast<int32_t>(tokens.size()) - computed; }
  // Past its prompt: only the newest token is to be fed, or being sampled.
  bool decoding() const { return computed > 0 && pending() <= 1; }
  // Tokens it may still take: prompt to be fed and output to come.
  int64_t outstanding() const {
    return static_cast<int64_t>(request.prompt.size()) + request.max_tokens - computed;
  }
  // Its reader is too far behind: it is not continued until that has caught up.
  bool paused(int32_t max_unread) const { return stream->unread() >= max_unread; }
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
