#include "server/call_actor.h"

namespace penstock {

void CallActor::Wake() {
  if (wakes_.fetch_add(1) != 0) return;  // a turn is on its way and will see what happened
  queue_.Post([call = shared_from_this()] { call->Run(); });
}

void CallActor::Begin(size_t request_bytes, TaskQueue& pool) {
  self_ = shared_from_this();
  if (wakes_.fetch_add(1) != 0) return;
  if (request_bytes <= kShortRequest) return Run();
  pool.Post([call = shared_from_this()] { call->Run(); });
}

void CallActor::Run() {
  const int seen = wakes_.load();
  Turn();
  if (wakes_.fetch_sub(seen) == seen) return;
  // Woken meanwhile: another turn, behind the other calls' tasks.
  queue_.Post([call = shared_from_this()] { call->Run(); });
}

}  // namespace penstock
