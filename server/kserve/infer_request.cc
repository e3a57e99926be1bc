#include "server/kserve/infer_request.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "server/field_checks.h"
#include "server/raw_message.h"
#include "shard/base/status_macros.h"

namespace penstock::kserve {

absl::StatusOr<WantedOutputs> WantedOutputs::Read(const inference::ModelInferRequest& request,
                                                  const std::vector<absl::string_view>& known) {
  WantedOutputs wanted;
  for (const auto& output : request.outputs()) {
    if (std::find(known.begin(), known.end(), output.name()) == known.end())
      return absl::InvalidArgumentError(
          absl::StrCat("output \"", output.name(), "\" is none of this model's"));
    if (output.parameters().contains("shared_memory_region"))
      return absl::UnimplementedError(
          absl::StrCat("output \"", output.name(), "\" cannot be left in shared memory"));
    wanted.names_.push_back(output.name());
  }
  return wanted;
}

bool WantedOutputs::Has(absl::string_view name, bool by_default) const {
  if (names_.empty()) return by_default;
  return std::find(names_.begin(), names_.end(), name) != names_.end();
}

absl::StatusOr<inference::ModelInferRequest> ParseInferRequest(const grpc::ByteBuffer& bytes) {
  return ParseMessage<inference::ModelInferRequest>(bytes,
                                                    "names, id, datatypes, string parameters");
}

absl::Status CheckModel(const std::string& name, const std::string& version,
                        const ServedModel& model) {
  RETURN_IF_ERROR(CheckModelName(name, model));
  if (version.empty() || version == kModelVersion) return absl::OkStatus();
  int64_t number = 0;
  if (!absl::SimpleAtoi(version, &number))
    return Refuse("model_version", "is \"", version, "\", which is no number");
  return absl::NotFoundError(absl::StrCat("model \"", model.name, "\" has no version ", version,
                                          "; it has ", kModelVersion));
}

inference::ModelInferResponse ResponseTo(const std::string& id, const ServedModel& model) {
  inference::ModelInferResponse response;
  response.set_model_name(model.name);
  response.set_model_version(kModelVersion);
  response.set_id(id);
  return response;
}

grpc::ByteBuffer StreamMessage(inference::ModelInferResponse response, bool final) {
  inference::ModelStreamInferResponse message;
  (*response.mutable_parameters())["triton_final_response"].set_bool_param(final);
  *message.mutable_infer_response() = std::move(response);
  return SerializeMessage(message);
}

}  // namespace penstock::kserve
