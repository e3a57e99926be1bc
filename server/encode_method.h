#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/penstock/v1/encoding.pb.h"
#include "scheduler/encode_request.h"
#include "server/served_model.h"

namespace penstock {

// A one-shot call that has passed the door: nothing in it can fail further in.
struct EncodeTask {
  std::vector<EncodeRequest> requests;          // not empty; the deadlines are left to the call
  std::vector<bool> truncated;                  // of each: some of the input was left out
  std::optional<absl::Duration> queue_timeout;  // as the call sets it; zero: no bound
};

// What came of one request of a task.
struct EncodeOutput {
  std::vector<float> values;
  uint32_t tokens = 0;
  bool truncated = false;
};

// What the RPCs to one-shot models do differently, of whatever protocol: their messages. Of one
// call.
class EncodeMethod {
 public:
  virtual ~EncodeMethod() = default;

  virtual absl::string_view name() const = 0;  // of the RPC

  // Checks every field against its range and the model, and encodes the texts; takes as long as
  // that does, so it belongs on the text pool. Errors name the field: FailedPrecondition for a
  // model of another kind, NotFound for an unknown one, otherwise InvalidArgument.
  virtual absl::StatusOr<EncodeTask> Parse(const grpc::ByteBuffer& request,
                                           const ServedModel& model) = 0;

  // The answer; `outputs` are those of Parse()'s requests, in their order.
  virtual grpc::ByteBuffer Respond(std::vector<EncodeOutput> outputs,
                                   const v1::EncodeTimings& timings,
                                   const ServedModel& model) const = 0;
};

std::unique_ptr<EncodeMethod> MakeEmbedMethod();
std::unique_ptr<EncodeMethod> MakeClassifyMethod();
std::unique_ptr<EncodeMethod> MakeScoreMethod();

}  // namespace penstock
