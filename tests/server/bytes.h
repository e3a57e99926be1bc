#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <string>

namespace penstock {

// Raw messages to and from text.
inline grpc::ByteBuffer Bytes(const std::string& text) {
  const grpc::Slice slice(text);
  return {&slice, 1};
}

inline std::string TextOf(const grpc::ByteBuffer& bytes) {
  grpc::Slice slice;
  return bytes.DumpToSingleSlice(&slice).ok() ? std::string(slice.begin(), slice.end()) : "?";
}

}  // namespace penstock
