#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "shard/remote/credentials.h"
#include "shard/remote/worker_service.h"

namespace penstock {

// A worker's door: a gRPC server of ShardWorker. Thread-safe.
class WorkerServer {
 public:
  // Unavailable when it cannot listen there.
  static absl::StatusOr<std::unique_ptr<WorkerServer>> Start(const std::string& listen,
                                                             const WorkerOptions& options,
                                                             ShardCredentials credentials);
  ~WorkerServer();  // cancels a session

  const std::string& address() const { return address_; }  // with the port that was picked
  void Wait() { server_->Wait(); }                         // for ever

 private:
  WorkerServer(const WorkerOptions& options, ShardCredentials credentials)
      : credentials_(credentials), service_(options, std::move(credentials)) {}
  absl::Status Listen(const std::string& listen);

  const ShardCredentials credentials_;
  WorkerService service_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace penstock
