#include "scheduler/token_stream.h"

#include <utility>

namespace penstock {

void TokenStream::Write(SampledToken token) {
  {
    MutexLock lock(&mutex_);
    if (pending_.closed) return;
    pending_.tokens.push_back(std::move(token));
    unread_.fetch_add(1, std::memory_order_release);
  }
  if (wake_) wake_();
}

void TokenStream::Close(FinishReason reason, absl::Status status, SequenceTimes times) {
  {
    MutexLock lock(&mutex_);
    if (pending_.closed) return;
    pending_.closed = true;
    pending_.reason = reason;
    pending_.status = std::move(status);
    pending_.times = times;
  }
  if (wake_) wake_();
}

TokenStream::Chunk TokenStream::Read() {
  MutexLock lock(&mutex_);
  std::vector<SampledToken> tokens = std::exchange(pending_.tokens, {});
  unread_.store(0, std::memory_order_release);
  Chunk chunk = pending_;  // how it ended can be read again, the tokens cannot
  chunk.tokens = std::move(tokens);
  return chunk;
}

}  // namespace penstock
