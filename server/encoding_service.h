#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "proto/penstock/v1/encoding.grpc.pb.h"
#include "server/call_environment.h"
#include "server/call_gate.h"
#include "server/encode_method.h"

namespace penstock {

// penstock.v1.Encoding: hands each RPC that the gate lets in to its call object. Borrows the gate
// and what the environment refers to.
class EncodingService final
    : public v1::Encoding::WithRawCallbackMethod_Embed<v1::Encoding::WithRawCallbackMethod_Classify<
          v1::Encoding::WithRawCallbackMethod_Score<v1::Encoding::Service>>> {
 public:
  EncodingService(CallGate& gate, const CallEnvironment& environment)
      : gate_(gate), environment_(environment) {}

  grpc::ServerUnaryReactor* Embed(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Classify(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Score(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;

 private:
  grpc::ServerUnaryReactor* Start(std::unique_ptr<EncodeMethod> method,
                                  grpc::CallbackServerContext& context,
                                  const grpc::ByteBuffer& request, grpc::ByteBuffer* response);

  CallGate& gate_;
  const CallEnvironment environment_;
};

}  // namespace penstock
