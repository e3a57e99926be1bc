#include "shard/remote/worker_service.h"

namespace penstock {

grpc::Status WorkerService::Serve(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<v1::WorkerMessage, v1::LeaderMessage>* stream) {
  if (grpc::Status known = credentials_.Check(*context); !known.ok()) return known;
  if (taken_.exchange(true))
    return {grpc::StatusCode::UNAVAILABLE, "the worker has a leader already"};
  absl::Status outcome;
  {
    WorkerSession session(options_,
                          [stream](const v1::WorkerMessage& message) { stream->Write(message); });
    v1::LeaderMessage message;
    while (outcome.ok() && stream->Read(&message)) outcome = session.Handle(message);
  }
  taken_.store(false);
  return {static_cast<grpc::StatusCode>(outcome.code()), std::string(outcome.message())};
}

}  // namespace penstock
