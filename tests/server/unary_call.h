#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>

#include "absl/time/time.h"

namespace penstock {

// A client's context with a deadline.
class ClientCall : public grpc::ClientContext {
 public:
  explicit ClientCall(absl::Duration timeout = absl::Seconds(30)) {
    set_deadline(std::chrono::system_clock::now() + absl::ToChronoMicroseconds(timeout));
  }
};

// What one call brings.
template <typename Response>
struct Got {
  grpc::Status status;
  Response response;
};

// One call of a stub's blocking method.
template <typename Stub, typename Request, typename Response>
Got<Response> Call(Stub& stub,
                   grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                   const Request& request = {}) {
  ClientCall client;
  Got<Response> got;
  got.status = (stub.*method)(&client, request, &got.response);
  return got;
}

}  // namespace penstock
