#pragma once

#include <memory>

#include "absl/status/status.h"
#include "scheduler/encode_reply.h"
#include "scheduler/encode_request.h"
#include "scheduler/observer.h"

namespace penstock {

// Where requests of a one-shot model go; what Generator is for a model that generates.
class Encoder {
 public:
  virtual ~Encoder() = default;

  // Thread-safe, never blocks. InvalidArgument when the request could never run, ResourceExhausted
  // when the queue is full or it could not be served in time, Unavailable when stopping or lost.
  // After OK, `reply` is closed exactly once.
  virtual absl::Status Submit(EncodeRequest request, std::shared_ptr<EncodeReply> reply) = 0;

  virtual SchedulerState state() const = 0;  // thread-safe snapshot
};

}  // namespace penstock
