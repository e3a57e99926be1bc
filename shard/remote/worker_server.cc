#include "shard/remote/worker_server.h"

#include <chrono>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "shard/base/status_macros.h"

namespace penstock {

absl::StatusOr<std::unique_ptr<WorkerServer>> WorkerServer::Start(const std::string& listen,
                                                                  const WorkerOptions& options,
                                                                  ShardCredentials credentials) {
  std::unique_ptr<WorkerServer> server(new WorkerServer(options, std::move(credentials)));
  RETURN_IF_ERROR(server->Listen(listen));
  return server;
}

absl::Status WorkerServer::Listen(const std::string& listen) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(listen, credentials_.server(), &port);
  builder.RegisterService(&service_);
  builder.SetMaxReceiveMessageSize(-1);  // a step may carry long prompts
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // A leader whose host is gone says nothing: then the session ends, and another may come.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 5000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port == 0)
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", listen, ": it is in use or not this machine's"));
  address_ = absl::StartsWith(listen, "unix:")
                 ? listen
                 : absl::StrCat(listen.substr(0, listen.rfind(':') + 1), port);
  return absl::OkStatus();
}

WorkerServer::~WorkerServer() {
  if (server_) server_->Shutdown(std::chrono::system_clock::now());
}

}  // namespace penstock
