#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "proto/penstock/v1/generation.grpc.pb.h"

namespace penstock {

// A call that is read only when the test says so.
class OpenCall {
 public:
  OpenCall(v1::Generation::Stub& stub, const v1::GenerateRequest& request)
      : reader_(stub.Generate(&client_, request)) {}
  bool Read(v1::GenerateResponse* message) { return reader_->Read(message); }
  void Cancel() { client_.TryCancel(); }
  grpc::Status Finish() { return reader_->Finish(); }

  // Reads to the end.
  std::string ReadText() {
    v1::GenerateResponse message;
    std::string text;
    while (Read(&message)) text += message.text();
    return text;
  }

 private:
  grpc::ClientContext client_;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader_;
};

// Of a channel with a small flow-control window, so that the transport does not hide that nobody
// reads.
inline grpc::ChannelArguments SmallWindow() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 65535);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  return arguments;
}

}  // namespace penstock
