#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/kserve/infer_statistics.h"
#include "server/rpc_service.h"

namespace penstock::kserve {

// inference.GRPCInferenceService: KServe's Open Inference Protocol v2 with Triton's extensions.
class KServeService final : public RpcService {
 public:
  explicit KServeService(const Front& front);

 private:
  class InferStream;

  void AddServerRpcs();
  void AddModelRpcs();
  void AddRepositoryRpcs();
  void AddSharedMemoryRpcs();
  // Answers by a function of the parsed request.
  template <typename Request, typename Response>
  void AddFunction(const std::string& rpc,
                   std::function<absl::StatusOr<Response>(const Request& request)> answer);
  // As AddFunction, of a model that must be there.
  template <typename Request, typename Response>
  void AddModelFunction(const std::string& rpc,
                        std::function<absl::StatusOr<Response>(const ServedModel& model)> answer);
  void Refuse(const std::string& rpc, absl::string_view why);

  void Infer(std::unique_ptr<ResponseStream> stream, bool in_stream);
  // Whether a replica can serve.
  bool ready() const;

  InferStatistics statistics_;
};

}  // namespace penstock::kserve
