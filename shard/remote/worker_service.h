#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <utility>

#include "proto/penstock/v1/shard.grpc.pb.h"
#include "shard/remote/credentials.h"
#include "shard/remote/worker_session.h"

namespace penstock {

// The worker's side of the wire: one WorkerSession per leader, one leader at a time.
class WorkerService final : public v1::ShardWorker::Service {
 public:
  WorkerService(WorkerOptions options, ShardCredentials credentials)
      : options_(std::move(options)), credentials_(std::move(credentials)) {}

  grpc::Status Serve(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::WorkerMessage, v1::LeaderMessage>* stream) override;

 private:
  const WorkerOptions options_;
  const ShardCredentials credentials_;
  std::atomic<bool> taken_{false};
};

}  // namespace penstock
