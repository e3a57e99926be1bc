#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/penstock/v1/generation.pb.h"
#include "server/served_model.h"

namespace penstock {

// What the RPCs that generate do differently: their messages. penstock.v1's own are the measure of
// what can be asked for and told; other protocols are translated to and from them. Of one call,
// used by one thread at a time.
class GenerateMethod {
 public:
  virtual ~GenerateMethod() = default;

  virtual absl::string_view name() const = 0;  // of the RPC, in metrics

  // Before Parse(). `cancel` ends the call as a client that goes does; at any time, from any
  // thread.
  virtual void SetCancel(std::function<void()> /*cancel*/) {}

  // The prompts of a request, at least one, each with what is asked of it. May take long, so it
  // belongs on the text pool. Errors name the request's field.
  virtual absl::StatusOr<std::vector<v1::GenerateRequest>> Parse(const grpc::ByteBuffer& bytes,
                                                                 const ServedModel& model) = 0;

  // What is wrong with a request that Parse() made, in terms of penstock.v1; said in terms of the
  // protocol.
  virtual absl::Status Explain(absl::Status status) const { return status; }

  // News of a sample of prompt number `prompt`: appends the messages to be sent, perhaps none.
  virtual void Respond(size_t prompt, v1::GenerateResponse news,
                       std::vector<grpc::ByteBuffer>* out) = 0;

  // All samples have ended and all of their news were responded to: appends what is left.
  virtual void Finish(std::vector<grpc::ByteBuffer>* /*out*/) {}
};

// Generate of penstock.v1.Generation.
std::unique_ptr<GenerateMethod> MakeNativeGenerate();

}  // namespace penstock
