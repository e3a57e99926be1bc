#include "server/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>

#include <chrono>
#include <memory>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "server/encoding_service.h"
#include "server/generation_service.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

// Clients may ping every 10 s, with calls open or not; a dead peer is noticed within 80 s. Two
// servers never share a port by accident.
void SetChannelArguments(grpc::ServerBuilder* builder) {
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10000);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60000);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20000);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 2);
}

GenerateRequest WarmUpRequest(const ServedModel& model) {
  GenerateRequest request;
  request.prompt = {0};
  request.max_tokens = std::min(2, model.info.max_context - 1);
  request.sampling.temperature = 0;
  request.arrival = absl::Now();
  return request;
}

}  // namespace

absl::StatusOr<std::unique_ptr<InferenceServer>> InferenceServer::Start(
    const ServerOptions& options, Metrics& metrics) {
  auto server = absl::WrapUnique(new InferenceServer(options, metrics));
  RETURN_IF_ERROR(server->Bind());
  return server;
}

absl::Status InferenceServer::Bind() {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  builder.AddListeningPort(options_.listen, grpc::InsecureServerCredentials(), &port_);
  loop_ = std::make_unique<CallLoop>(builder.AddCompletionQueue());
  MakeServices();
  for (const std::unique_ptr<RpcService>& service : services_)
    builder.RegisterService(service.get());
  builder.RegisterService(&admin_);
  builder.SetMaxReceiveMessageSize(options_.max_receive_mib << 20);
  SetChannelArguments(&builder);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port_ == 0) {
    server_.reset();
    return absl::UnavailableError(absl::StrCat("cannot listen on ", options_.listen,
                                               ": the address is in use or not this machine's"));
  }
  for (const std::unique_ptr<RpcService>& service : services_) service->Listen();
  std::vector<std::string> names;
  for (const std::unique_ptr<RpcService>& service : services_) names.push_back(service->name());
  health_ = std::make_unique<HealthReporter>(server_->GetHealthCheckService(),
                                             options_.health_stall, std::move(names));
  return absl::OkStatus();
}

void InferenceServer::MakeServices() {
  front_.emplace(Front{gate_, {metrics_, timer_, options_.calls}, *loop_});
  services_.push_back(std::make_unique<GenerationService>(*front_));
  services_.push_back(std::make_unique<EncodingService>(*front_));
  for (const auto& make : options_.protocols) services_.push_back(make(*front_));
}

InferenceServer::~InferenceServer() {
  if (server_ == nullptr) return;
  gate_.Close();
  health_.reset();
  Shutdown();
}

// Cancels what is left.
void InferenceServer::Shutdown() {
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  loop_->Stop();
}

absl::Status InferenceServer::WarmUp(const ServingContext& context) {
  return context.encoder != nullptr ? WarmUpEncoder(context) : WarmUpGenerator(context);
}

absl::Status InferenceServer::WarmUpGenerator(const ServingContext& context) {
  auto bell = std::make_shared<Doorbell>();
  auto stream = std::make_shared<TokenStream>([bell] { bell->Ring(); });
  RETURN_IF_ERROR(context.generator->Submit(WarmUpRequest(context.model), stream));
  const auto ended = [&stream]() -> std::optional<absl::Status> {
    const TokenStream::Chunk chunk = stream->Read();
    return chunk.closed ? std::make_optional(chunk.status) : std::nullopt;
  };
  const absl::Status status = AwaitWarmUp(ended, *bell);
  stream->Cancel();
  return status;
}

absl::Status InferenceServer::WarmUpEncoder(const ServingContext& context) {
  auto bell = std::make_shared<Doorbell>();
  auto reply = std::make_shared<EncodeReply>([bell] { bell->Ring(); });
  EncodeRequest request;
  request.tokens = {0};
  RETURN_IF_ERROR(context.encoder->Submit(std::move(request), reply));
  const auto ended = [&reply]() -> std::optional<absl::Status> {
    const std::optional<EncodeReply::Result> result = reply->Take();
    return result ? std::make_optional(result->output.status()) : std::nullopt;
  };
  const absl::Status status = AwaitWarmUp(ended, *bell);
  reply->Cancel();
  return status;
}

absl::Status InferenceServer::AwaitWarmUp(const std::function<std::optional<absl::Status>()>& ended,
                                          Doorbell& bell) {
  const absl::Time deadline = absl::Now() + options_.warm_up_timeout;
  while (absl::Now() < deadline && !gate_.stop_requested()) {
    bell.AwaitFor(absl::Milliseconds(100));
    if (const std::optional<absl::Status> status = ended()) return *status;
  }
  if (gate_.stop_requested()) return absl::CancelledError("stopped while warming up");
  return absl::DeadlineExceededError(absl::StrCat("the warm-up request took longer than ",
                                                  absl::FormatDuration(options_.warm_up_timeout)));
}

absl::Status InferenceServer::Open(const ServingContext& context) {
  // Each replica gets one: the router prefers the one that has had the fewest.
  for (int i = 0; i < context.replicas; ++i) RETURN_IF_ERROR(WarmUp(context));
  metrics_.Serve();
  gate_.Open(&context);
  health_->Serve([&context] { return context.state(); });
  return absl::OkStatus();
}

bool InferenceServer::Drain() {
  health_->Drain();
  gate_.Close();
  const bool all_finished = gate_.AwaitEmpty(options_.grace);
  Shutdown();
  return all_finished;
}

std::string InferenceServer::address() const {
  const absl::string_view listen = options_.listen;
  return absl::StrCat(listen.substr(0, listen.rfind(':')), ":", port_);
}

}  // namespace penstock
