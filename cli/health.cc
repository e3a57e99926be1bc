// `penstock health`: asks grpc.health.v1; exit code 0 when SERVING.

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "cli/setting_table.h"
#include "proto/grpc/health/v1/health.grpc.pb.h"

namespace penstock {
namespace {

namespace health = grpc::health::v1;

struct HealthOptions {
  std::string address = "127.0.0.1:50051";
  std::string service;
  absl::Duration timeout = absl::Seconds(5);
};

absl::StatusOr<int> CheckHealth(const HealthOptions& options) {
  const auto stub = health::Health::NewStub(
      grpc::CreateChannel(options.address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       absl::ToChronoMicroseconds(options.timeout));
  health::HealthCheckRequest request;
  request.set_service(options.service);
  health::HealthCheckResponse response;
  const grpc::Status status = stub->Check(&context, request, &response);
  if (!status.ok())
    return absl::UnavailableError(absl::StrCat(options.address, ": ", status.error_message()));
  std::printf("%s\n", health::HealthCheckResponse::ServingStatus_Name(response.status()).c_str());
  return response.status() == health::HealthCheckResponse::SERVING ? 0 : 1;
}

}  // namespace

Command MakeHealthCommand(CLI::App& program) {
  struct State {
    HealthOptions options;
    SettingTable table;
  };
  auto state = std::make_shared<State>();
  CLI::App* app = program.add_subcommand("health", "Ask a server for its health");
  state->table.Add("address", "Of the server", &state->options.address);
  state->table.Add("service", "Name to ask for; empty: the whole server", &state->options.service);
  state->table.Add("timeout", "Seconds to wait for the answer", &state->options.timeout);
  state->table.DeclareFlags(*app);
  return {app, [state] { return state->table.ApplyFlags(); },
          [state] { return CheckHealth(state->options); }};
}

}  // namespace penstock
