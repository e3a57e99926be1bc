#pragma once

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"

namespace penstock {

// The two enumerations have the same numbers and meanings, so codes map one to one.
inline grpc::Status ToGrpc(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

// Foreign servers may leave the message empty; a failure without a word helps nobody.
inline absl::Status FromGrpc(const grpc::Status& status) {
  if (!status.ok() && status.error_message().empty())
    return {static_cast<absl::StatusCode>(status.error_code()),
            status.error_code() == grpc::StatusCode::UNIMPLEMENTED
                ? "the server does not know this call (does it speak another protocol?)"
                : "the server sent no message"};
  return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
}

}  // namespace penstock
