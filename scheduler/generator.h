#pragma once

#include <memory>

#include "absl/status/status.h"
#include "scheduler/observer.h"
#include "scheduler/request.h"
#include "scheduler/token_stream.h"

namespace penstock {

// Where generation requests go: one scheduler, or several replicas behind a router.
class Generator {
 public:
  virtual ~Generator() = default;

  // Thread-safe, never blocks. InvalidArgument when the request could never run, ResourceExhausted
  // when the queue is full or, where that is asked for, when it could not be served in time,
  // Unavailable when stopping or lost. After OK, `stream` is closed exactly once; a request whose
  // `generated` is complete already ends without another token.
  virtual absl::Status Submit(GenerateRequest request, std::shared_ptr<TokenStream> stream) = 0;

  virtual SchedulerState state() const = 0;  // thread-safe snapshot, of all replicas together
};

}  // namespace penstock
