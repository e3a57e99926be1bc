#pragma once

#include <grpcpp/grpcpp.h>

#include "proto/penstock/v1/generation.grpc.pb.h"
#include "server/call_environment.h"
#include "server/call_gate.h"

namespace penstock {

// penstock.v1.Generation: hands each RPC that the gate lets in to its call object. Borrows
// the gate and what the environment refers to.
// Messages come as bytes: gRPC would answer what it cannot parse with a bare UNIMPLEMENTED.
class GenerationService final
    : public v1::Generation::WithRawCallbackMethod_Generate<v1::Generation::Service> {
 public:
  GenerationService(CallGate& gate, const CallEnvironment& environment)
      : gate_(gate), environment_(environment) {}

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request) override;

 private:
  CallGate& gate_;
  const CallEnvironment environment_;
};

}  // namespace penstock
