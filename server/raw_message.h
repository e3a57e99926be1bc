#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>  // serialization of protobuf messages

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace penstock {

// Messages come and go as bytes: gRPC would answer what it cannot parse, a string that is not UTF-8
// for instance, with a bare UNIMPLEMENTED.

// InvalidArgument names the message and `strings`, its fields that must be UTF-8.
template <typename Message>
absl::StatusOr<Message> ParseMessage(const grpc::ByteBuffer& bytes, absl::string_view strings) {
  Message message;
  grpc::ByteBuffer copy(bytes);  // shares the bytes; reading uses it up
  if (grpc::SerializationTraits<Message>::Deserialize(&copy, &message).ok()) return message;
  return absl::InvalidArgumentError(
      absl::StrCat("the request is no ", Message::descriptor()->full_name(),
                   ": it is malformed, or one of its strings (", strings, ") is not UTF-8"));
}

// `message` is smaller than 2 GiB.
template <typename Message>
grpc::ByteBuffer SerializeMessage(const Message& message) {
  grpc::ByteBuffer bytes;
  bool own = false;
  const grpc::Status status = grpc::SerializationTraits<Message>::Serialize(message, &bytes, &own);
  GPR_ASSERT(status.ok());
  return bytes;
}

}  // namespace penstock
