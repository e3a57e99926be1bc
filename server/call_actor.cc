#include "server/call_actor.h"

#include <chrono>

namespace penstock {

void CallActor::Wake() {
  if (wakes_.fetch_add(1) != 0) return;  // a turn is on its way and will see what happened
  pool_.Post([call = shared_from_this()] { call->Run(); });
}

void CallActor::Run() {
  const int seen = wakes_.load();
  Turn();
  if (wakes_.fetch_sub(seen) == seen) return;
  // Woken meanwhile: another turn, behind the other calls' tasks.
  pool_.Post([call = shared_from_this()] { call->Run(); });
}

absl::Time ClientDeadline(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  return deadline == std::chrono::system_clock::time_point::max() ? absl::InfiniteFuture()
                                                                  : absl::FromChrono(deadline);
}

}  // namespace penstock
