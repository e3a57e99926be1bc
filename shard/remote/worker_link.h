#pragma once

#include <grpcpp/grpcpp.h>

#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "proto/penstock/v1/shard.grpc.pb.h"
#include "shard/base/mutex.h"

namespace penstock {

// A channel to a worker's address, which goes on trying to connect.
std::shared_ptr<grpc::Channel> MakeWorkerChannel(
    const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials);

// The leader's side of one worker's stream. Thread-safe.
class WorkerLink final : private grpc::ClientBidiReactor<v1::LeaderMessage, v1::WorkerMessage> {
 public:
  // Told on gRPC's threads, one call at a time, in order; may not block.
  using Receive = std::function<void(const v1::WorkerMessage& message)>;
  using Lost = std::function<void(const grpc::Status& end)>;       // once; the last of all calls
  using Sign = std::function<void(grpc::ClientContext* context)>;  // adds what the worker asks for

  WorkerLink(const std::shared_ptr<grpc::Channel>& channel, const Sign& sign, Receive receive,
             Lost lost);
  ~WorkerLink() override;  // ends the stream and waits until the last call has returned

  void Send(v1::LeaderMessage message) ABSL_LOCKS_EXCLUDED(mutex_);  // never blocks

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnDone(const grpc::Status& status) override;

  const Receive receive_;
  const Lost lost_;
  const std::unique_ptr<v1::ShardWorker::Stub> stub_;
  grpc::ClientContext context_;
  // Shared with OnDone(), which may still be about to return when the destructor goes on.
  const std::shared_ptr<std::promise<void>> done_ = std::make_shared<std::promise<void>>();
  v1::WorkerMessage incoming_;
  Mutex mutex_;
  std::deque<v1::LeaderMessage> outgoing_ ABSL_GUARDED_BY(mutex_);  // the first is being written
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;                     // nothing can be written
};

}  // namespace penstock
