#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <deque>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/penstock/v1/generation.grpc.pb.h"
#include "server/call_actor.h"
#include "server/call_deadlines.h"
#include "server/call_environment.h"
#include "server/call_gate.h"
#include "server/sample.h"
#include "server/timer.h"

namespace penstock {

// One Generate RPC, from request to final status.
//
// A slow client: at most one write is outstanding, and what comes meanwhile gathers in the samples,
// at most CallBounds::max_unread_tokens of each. Beyond that the call leaves tokens in their
// stream, and the scheduler pauses the sequence. A client that takes nothing at all is given up
// after CallBounds::client_stall.
class GenerateCall final : public grpc::ServerWriteReactor<grpc::ByteBuffer>, public CallActor {
 public:
  // `request` and `context` live until OnDone, as gRPC promises. Never blocks.
  static grpc::ServerWriteReactor<grpc::ByteBuffer>* Start(CallGate::Ticket ticket,
                                                           const CallEnvironment& environment,
                                                           grpc::CallbackServerContext& context,
                                                           const grpc::ByteBuffer& request);

  // Use Start; public for std::make_shared.
  GenerateCall(CallGate::Ticket ticket, const CallEnvironment& environment,
               grpc::CallbackServerContext& context, const grpc::ByteBuffer& request);

 private:
  // gRPC's side, on its threads.
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  // The actor's side.
  void Turn() override;
  void Abandon();
  absl::Status Submit();
  absl::Status AbsorbAll();
  bool IsFull(const Sample& sample) const;
  void Write();
  CallPhase Phase() const;
  absl::Status CheckDeadlines();
  void SetAlarm();
  void GiveUp(absl::Status why);
  void CancelSamples();
  void End(absl::Status status);
  absl::Status WhyCancelled() const;

  CallGate::Ticket ticket_;
  const CallEnvironment& environment_;
  grpc::CallbackServerContext& grpc_context_;
  const grpc::ByteBuffer& request_;
  const absl::Time arrival_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> writing_{false};

  // The actor's own.
  CallDeadlines deadlines_;
  Timer::Alarm alarm_;
  bool submitted_ = false;
  bool ended_ = false;
  absl::Status given_up_;       // why, while gRPC lets go of the write that is outstanding
  std::deque<Sample> samples_;  // Sample does not move
  size_t next_ = 0;             // the sample that may write next
  grpc::ByteBuffer message_;
  absl::Status status_;  // how the call ended
};

}  // namespace penstock
