#pragma once

#include <grpcpp/grpcpp.h>

#include "proto/penstock/v1/generation.grpc.pb.h"
#include "server/call_gate.h"
#include "server/metrics.h"

namespace penstock {

// penstock.v1.Generation: hands each RPC that the gate lets in to its call object. Borrows both.
// Messages come as bytes: gRPC would answer what it cannot parse with a bare UNIMPLEMENTED.
class GenerationService final
    : public v1::Generation::WithRawCallbackMethod_Generate<v1::Generation::Service> {
 public:
  GenerationService(CallGate& gate, Metrics& metrics) : gate_(gate), metrics_(metrics) {}

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request) override;

 private:
  CallGate& gate_;
  Metrics& metrics_;
};

}  // namespace penstock
