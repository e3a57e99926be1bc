#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/kserve/inference.pb.h"
#include "server/served_model.h"

namespace penstock::kserve {

inline constexpr char kModelVersion[] = "1";  // of every model

// Names of outputs that a request asks for; empty: all that the model gives by itself.
class WantedOutputs {
 public:
  // InvalidArgument for what is not in `known` or is to be left in shared memory.
  static absl::StatusOr<WantedOutputs> Read(const inference::ModelInferRequest& request,
                                            const std::vector<absl::string_view>& known);
  // Asked for, or nothing is and it is given `by_default`.
  bool Has(absl::string_view name, bool by_default) const;

 private:
  std::vector<std::string> names_;
};

absl::StatusOr<inference::ModelInferRequest> ParseInferRequest(const grpc::ByteBuffer& bytes);
// NotFound for another model or version, InvalidArgument for a version that is none.
absl::Status CheckModel(const std::string& name, const std::string& version,
                        const ServedModel& model);

// With the request's id and the model that ran.
inference::ModelInferResponse ResponseTo(const std::string& id, const ServedModel& model);

// The message of a stream that carries `response` and tells whether it is the request's last.
grpc::ByteBuffer StreamMessage(inference::ModelInferResponse response, bool final);

}  // namespace penstock::kserve
