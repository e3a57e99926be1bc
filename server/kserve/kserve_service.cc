#include "server/kserve/kserve_service.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "proto/kserve/inference.pb.h"
#include "server/encode_call.h"
#include "server/generate_call.h"
#include "server/grpc_status.h"
#include "server/kserve/infer_encode.h"
#include "server/kserve/infer_generate.h"
#include "server/kserve/infer_request.h"
#include "server/kserve/model_description.h"
#include "server/model_call.h"
#include "server/multi_stream.h"
#include "server/raw_message.h"
#include "shard/base/status_macros.h"

namespace penstock::kserve {
namespace {

constexpr absl::string_view kExtensions[] = {
    "classification",     "model_configuration", "model_repository", "schedule_policy",
    "binary_tensor_data", "parameters",          "statistics"};

std::string MethodName(absl::string_view rpc) { return absl::StrCat("kserve.", rpc); }

// Of Triton: the first failed request of a stream ends it with its status.
bool EndsWithErrors(const grpc::ServerContext& context) {
  const auto found = context.client_metadata().find("triton_grpc_error");
  return found != context.client_metadata().end() && found->second == "true";
}

}  // namespace

// The requests of one ModelStreamInfer; failures are told within the stream unless the client asks
// for a status.
class KServeService::InferStream final : public MultiProtocol {
 public:
  InferStream(KServeService& service, bool ends_with_errors)
      : service_(service), ends_with_errors_(ends_with_errors) {}

  void Accept(std::unique_ptr<ResponseStream> stream) override {
    service_.Infer(std::move(stream), /*in_stream=*/true);
  }

  std::optional<grpc::ByteBuffer> Failure(const grpc::ByteBuffer& bytes,
                                          const absl::Status& status) override {
    if (ends_with_errors_) return std::nullopt;
    inference::ModelStreamInferResponse message;
    message.set_error_message(
        absl::StrCat("[", absl::StatusCodeToString(status.code()), "] ",
                     status.message().empty() ? "the request failed" : status.message()));
    inference::ModelInferResponse& response = *message.mutable_infer_response();
    if (const auto request = ParseInferRequest(bytes); request.ok()) {
      response.set_id(request->id());
      response.set_model_name(request->model_name());
      response.set_model_version(request->model_version());
    }
    (*response.mutable_parameters())["triton_final_response"].set_bool_param(true);
    return SerializeMessage(message);
  }

 private:
  KServeService& service_;
  const bool ends_with_errors_;
};

KServeService::KServeService(const Front& front)
    : RpcService("inference.GRPCInferenceService", front) {
  AddServerRpcs();
  AddModelRpcs();
  AddRepositoryRpcs();
  AddSharedMemoryRpcs();
  AddRpc("ModelInfer", [this](std::unique_ptr<RpcStream> stream) {
    Infer(std::move(stream), /*in_stream=*/false);
  });
  AddStream("ModelStreamInfer", [this](std::unique_ptr<RpcStream> stream) {
    auto protocol = std::make_unique<InferStream>(*this, EndsWithErrors(stream->context()));
    MultiStream::Start(std::move(stream), std::move(protocol), {}, this->front().loop);
  });
}

bool KServeService::ready() const { return CanServe(front()); }

template <typename Request, typename Response>
void KServeService::AddFunction(const std::string& rpc,
                                std::function<absl::StatusOr<Response>(const Request&)> answer) {
  AddAnswer(
      rpc, MethodName(rpc),
      [answer =
           std::move(answer)](const grpc::ByteBuffer& bytes) -> absl::StatusOr<grpc::ByteBuffer> {
        ASSIGN_OR_RETURN(const Request request, ParseMessage<Request>(bytes, "names, versions"));
        ASSIGN_OR_RETURN(const Response response, answer(request));
        return SerializeMessage(response);
      });
}

template <typename Request, typename Response>
void KServeService::AddModelFunction(
    const std::string& rpc, std::function<absl::StatusOr<Response>(const ServedModel&)> answer) {
  AddFunction<Request, Response>(
      rpc, [this, answer = std::move(answer)](const Request& request) -> absl::StatusOr<Response> {
        ASSIGN_OR_RETURN(const CallGate::Ticket ticket, front().gate.Enter());
        const ServedModel& model = ticket.context().model;
        RETURN_IF_ERROR(CheckModel(request.name(), request.version(), model));
        return answer(model);
      });
}

void KServeService::AddServerRpcs() {
  AddFunction<inference::ServerLiveRequest, inference::ServerLiveResponse>(
      "ServerLive", [](const auto&) {
        inference::ServerLiveResponse response;
        response.set_live(true);
        return response;
      });
  AddFunction<inference::ServerReadyRequest, inference::ServerReadyResponse>(
      "ServerReady", [this](const auto&) {
        inference::ServerReadyResponse response;
        response.set_ready(ready());
        return response;
      });
  AddFunction<inference::ServerMetadataRequest, inference::ServerMetadataResponse>(
      "ServerMetadata", [](const auto&) {
        inference::ServerMetadataResponse response;
        response.set_name("penstock");
        response.set_version(PENSTOCK_VERSION);
        for (absl::string_view extension : kExtensions)
          response.add_extensions(std::string(extension));
        return response;
      });
}

void KServeService::AddModelRpcs() {
  // Of a model that is not there: not ready, which is no error.
  AddFunction<inference::ModelReadyRequest, inference::ModelReadyResponse>(
      "ModelReady", [this](const auto& request) {
        inference::ModelReadyResponse response;
        const absl::StatusOr<CallGate::Ticket> ticket = front().gate.Enter();
        response.set_ready(
            ticket.ok() && ready() &&
            CheckModel(request.name(), request.version(), ticket->context().model).ok());
        return response;
      });
  AddModelFunction<inference::ModelMetadataRequest, inference::ModelMetadataResponse>(
      "ModelMetadata", DescribeModel);
  AddModelFunction<inference::ModelConfigRequest, inference::ModelConfigResponse>(
      "ModelConfig", [](const ServedModel& model) {
        inference::ModelConfigResponse response;
        *response.mutable_config() = ConfigOf(model);
        return response;
      });
  AddModelFunction<inference::ModelStatisticsRequest, inference::ModelStatisticsResponse>(
      "ModelStatistics", [this](const ServedModel& model) {
        inference::ModelStatisticsResponse response;
        inference::ModelStatistics* statistics = response.add_model_stats();
        statistics->set_name(model.name);
        statistics->set_version(kModelVersion);
        statistics_.Fill(statistics);
        return response;
      });
}

void KServeService::AddRepositoryRpcs() {
  AddFunction<inference::RepositoryIndexRequest, inference::RepositoryIndexResponse>(
      "RepositoryIndex",
      [this](const auto& request) -> absl::StatusOr<inference::RepositoryIndexResponse> {
        ASSIGN_OR_RETURN(const CallGate::Ticket ticket, front().gate.Enter());
        inference::RepositoryIndexResponse response;
        const bool serves = ready();
        if (request.ready() && !serves) return response;
        auto* model = response.add_models();
        model->set_name(ticket.context().model.name);
        model->set_version(kModelVersion);
        model->set_state(serves ? "READY" : "UNAVAILABLE");
        if (!serves) model->set_reason("no replica can serve");
        return response;
      });
  constexpr absl::string_view kFixed =
      "this server serves the one model that it was started with; it has no model repository";
  Refuse("RepositoryModelLoad", kFixed);
  Refuse("RepositoryModelUnload", kFixed);
  Refuse("TraceSetting", "traces are recorded by penstock.v1.Admin.Trace");
  Refuse("LogSettings", "logs are set up by the option log-level");
}

void KServeService::AddSharedMemoryRpcs() {
  // To have no regions is no error, so clients that clean up first go on.
  AddFunction<inference::SystemSharedMemoryStatusRequest,
              inference::SystemSharedMemoryStatusResponse>(
      "SystemSharedMemoryStatus",
      [](const auto&) { return inference::SystemSharedMemoryStatusResponse(); });
  AddFunction<inference::CudaSharedMemoryStatusRequest, inference::CudaSharedMemoryStatusResponse>(
      "CudaSharedMemoryStatus",
      [](const auto&) { return inference::CudaSharedMemoryStatusResponse(); });
  AddFunction<inference::SystemSharedMemoryUnregisterRequest,
              inference::SystemSharedMemoryUnregisterResponse>(
      "SystemSharedMemoryUnregister",
      [](const auto&) { return inference::SystemSharedMemoryUnregisterResponse(); });
  AddFunction<inference::CudaSharedMemoryUnregisterRequest,
              inference::CudaSharedMemoryUnregisterResponse>(
      "CudaSharedMemoryUnregister",
      [](const auto&) { return inference::CudaSharedMemoryUnregisterResponse(); });
  constexpr absl::string_view kNone = "this server maps no memory of its clients";
  Refuse("SystemSharedMemoryRegister", kNone);
  Refuse("CudaSharedMemoryRegister", kNone);
}

void KServeService::Refuse(const std::string& rpc, absl::string_view why) {
  AddRefusal(rpc, MethodName(rpc), std::string(why));
}

void KServeService::Infer(std::unique_ptr<ResponseStream> stream, bool in_stream) {
  absl::StatusOr<CallGate::Ticket> ticket = front().gate.Enter();
  if (!ticket.ok())
    return RefuseCall(front(), MethodName(in_stream ? "ModelStreamInfer" : "ModelInfer"),
                      ticket.status(), std::move(stream));
  if (ticket->context().encoder != nullptr)
    return EncodeCall::Start(*std::move(ticket), front(), MakeInferEncode(statistics_, in_stream),
                             std::move(stream));
  GenerateCall::Start(*std::move(ticket), front(),
                      in_stream ? MakeStreamGenerate(statistics_) : MakeInferGenerate(statistics_),
                      std::move(stream));
}

}  // namespace penstock::kserve
