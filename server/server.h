#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/admin_service.h"
#include "server/call_bounds.h"
#include "server/call_gate.h"
#include "server/call_loop.h"
#include "server/doorbell.h"
#include "server/front.h"
#include "server/health_reporter.h"
#include "server/metrics.h"
#include "server/rpc_service.h"
#include "server/serving_context.h"
#include "server/timer.h"

namespace penstock {

struct ServerOptions {
  std::string listen = "127.0.0.1:50051";  // host:port; port 0 picks a free one
  // Of a request. gRPC answers a larger one with RESOURCE_EXHAUSTED "Received message larger than
  // max (size vs. limit)".
  int max_receive_mib = 64;
  absl::Duration grace = absl::Seconds(30);         // for running calls once draining
  absl::Duration health_stall = absl::Seconds(30);  // more than a step may take
  absl::Duration warm_up_timeout = absl::Seconds(300);
  CallBounds calls;
  ModelSummary model;  // what penstock.v1.Admin tells of it
  // Of the protocols beside penstock.v1; each makes its service for the server's front.
  std::vector<std::function<std::unique_ptr<RpcService>(const Front&)>> protocols;
};

// The gRPC front end and its life: starting (bound, health NOT_SERVING, calls UNAVAILABLE), ready,
// draining. Public methods are thread-safe unless noted.
class InferenceServer {
 public:
  // Binds and answers health from here on. Unavailable, naming the address, when it cannot be had.
  // Borrows `metrics`.
  static absl::StatusOr<std::unique_ptr<InferenceServer>> Start(const ServerOptions& options,
                                                                Metrics& metrics);
  // Ends what is left at once.
  ~InferenceServer();

  // Runs a real small request through the scheduler, then opens the door and reports SERVING.
  // `context` is borrowed until Drain() has returned. An error, also a stop request while warming
  // up, leaves the door shut.
  absl::Status Open(const ServingContext& context);

  // The first request asks for a drain, the second one for an end at once. Must not be called from
  // a signal handler.
  void RequestStop() { gate_.RequestStop(); }
  void AwaitStop() { gate_.AwaitStop(); }
  bool stop_requested() { return gate_.stop_requested(); }

  // NOT_SERVING, new calls UNAVAILABLE, running ones finish until the grace period or a second
  // RequestStop() ends them. Returns when no call is left; true: all of them had finished. Once.
  bool Drain();

  int port() const { return port_; }
  std::string address() const;  // as bound

 private:
  InferenceServer(const ServerOptions& options, Metrics& metrics)
      : options_(options), metrics_(metrics), admin_(gate_, metrics, timer_, options_.model) {}
  absl::Status Bind();
  void MakeServices();
  void Shutdown();
  absl::Status WarmUp(const ServingContext& context);
  absl::Status WarmUpGenerator(const ServingContext& context);
  absl::Status WarmUpEncoder(const ServingContext& context);
  absl::Status AwaitWarmUp(const std::function<std::optional<absl::Status>()>& ended,
                           Doorbell& bell);

  const ServerOptions options_;
  Metrics& metrics_;
  CallGate gate_;
  Timer timer_;
  AdminService admin_;
  int port_ = 0;
  std::unique_ptr<CallLoop> loop_;
  std::optional<Front> front_;
  std::vector<std::unique_ptr<RpcService>> services_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<HealthReporter> health_;
};

}  // namespace penstock
