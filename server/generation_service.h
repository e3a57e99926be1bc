#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "proto/penstock/v1/generation.grpc.pb.h"
#include "server/call_environment.h"
#include "server/call_gate.h"
#include "server/call_loop.h"
#include "server/server_stream.h"

namespace penstock {

// penstock.v1.Generation: hands each RPC that the gate lets in to its call object. Borrows
// the gate and what the environment refers to.
// Messages come as bytes: gRPC would answer what it cannot parse with a bare UNIMPLEMENTED.
class GenerationService final
    : public v1::Generation::WithRawMethod_Generate<v1::Generation::Service>,
      private ServerStream::Method {
 public:
  GenerationService(CallGate& gate, const CallEnvironment& environment)
      : gate_(gate), environment_(environment) {}

  // Answers RPCs on `loop`, which is borrowed until it has stopped. Once, when the service's server
  // has started.
  void Listen(CallLoop& loop);

 private:
  void Request(grpc::ServerContext* context, grpc::ByteBuffer* request,
               ServerStream::Writer* writer, void* tag) override;
  void Accept(std::unique_ptr<ServerStream> stream) override;

  CallGate& gate_;
  const CallEnvironment environment_;
  CallLoop* loop_ = nullptr;
};

}  // namespace penstock
