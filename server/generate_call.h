#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <deque>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/penstock/v1/generation.grpc.pb.h"
#include "server/call_gate.h"
#include "server/metrics.h"
#include "server/sample.h"

namespace penstock {

// One Generate RPC, from request to final status.
//
// An actor on the text pool: whatever happens (tokens, a finished write, a cancellation) only wakes
// it, and one turn at a time does all the work, so its state needs no lock and Finish is called in
// one place. At most one write is outstanding; what a slow client leaves behind gathers in the
// samples. Keeps itself alive until gRPC is done with it.
class GenerateCall final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                           public std::enable_shared_from_this<GenerateCall> {
 public:
  // `request` and `context` live until OnDone, as gRPC promises. Never blocks.
  static grpc::ServerWriteReactor<grpc::ByteBuffer>* Start(
      CallGate::Ticket ticket, Metrics& metrics, const grpc::CallbackServerContext& context,
      const grpc::ByteBuffer& request);

  // Use Start; public for std::make_shared.
  GenerateCall(CallGate::Ticket ticket, Metrics& metrics,
               const grpc::CallbackServerContext& context, const grpc::ByteBuffer& request);

 private:
  // gRPC's side, on its threads.
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  void Wake();  // any thread
  // The actor's side.
  void Run();
  void Turn();
  void Abandon();
  absl::Status Submit();
  absl::Status AbsorbAll();
  void Write();
  void End(absl::Status status);
  absl::Status WhyCancelled() const;

  CallGate::Ticket ticket_;
  TaskPool& pool_;  // outlives the call, which the rest of the context may not after OnDone
  Metrics& metrics_;
  const grpc::CallbackServerContext& grpc_context_;
  const grpc::ByteBuffer& request_;
  const absl::Time arrival_;
  std::shared_ptr<GenerateCall> self_;

  std::atomic<int> wakes_{0};  // since the last turn began; the one that leaves 0 posts
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> writing_{false};

  // The actor's own.
  bool submitted_ = false;
  bool ended_ = false;
  std::deque<Sample> samples_;  // Sample does not move
  size_t next_ = 0;             // the sample that may write next
  grpc::ByteBuffer message_;
  absl::Status status_;  // how the call ended
};

}  // namespace penstock
