#pragma once

#include <grpcpp/grpcpp.h>

#include "proto/penstock/v1/generation.grpc.pb.h"
#include "server/call_gate.h"
#include "server/metrics.h"

namespace penstock {

// penstock.v1.Generation: hands each RPC that the gate lets in to its call object. Borrows both.
class GenerationService final : public v1::Generation::CallbackService {
 public:
  GenerationService(CallGate& gate, Metrics& metrics) : gate_(gate), metrics_(metrics) {}

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context, const v1::GenerateRequest* request) override;

 private:
  CallGate& gate_;
  Metrics& metrics_;
};

}  // namespace penstock
