#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "scheduler/encode_reply.h"
#include "server/call_actor.h"
#include "server/call_deadlines.h"
#include "server/call_environment.h"
#include "server/call_gate.h"
#include "server/encode_method.h"
#include "server/timer.h"

namespace penstock {

// One RPC of penstock.v1.Encoding, from request to answer: its inputs go to the encoder one by one
// and it ends when all have come back, when the first fails, or when its time is over.
class EncodeCall final : public grpc::ServerUnaryReactor, public CallActor {
 public:
  // The messages and `context` live until OnDone, as gRPC promises. The ticket's model is a
  // one-shot one. Never blocks.
  static grpc::ServerUnaryReactor* Start(CallGate::Ticket ticket,
                                         const CallEnvironment& environment,
                                         std::unique_ptr<EncodeMethod> method,
                                         const grpc::CallbackServerContext& context,
                                         const grpc::ByteBuffer& request,
                                         grpc::ByteBuffer* response);

  // Use Start; public for std::make_shared.
  EncodeCall(CallGate::Ticket ticket, const CallEnvironment& environment,
             std::unique_ptr<EncodeMethod> method, const grpc::CallbackServerContext& context,
             const grpc::ByteBuffer& request, grpc::ByteBuffer* response);

 private:
  struct Input {
    std::shared_ptr<EncodeReply> reply;
    bool answered = false;
    EncodeOutput output;
  };

  // gRPC's side, on its threads.
  void OnCancel() override;
  void OnDone() override;

  // The actor's side.
  void Turn() override;
  absl::Status Submit();
  absl::Status Absorb();
  void AddTimes(const EncodeTimes& times);
  CallPhase Phase() const;
  absl::Status CheckDeadlines() const { return deadlines_.Check(absl::Now(), Phase(), false); }
  void SetAlarm();
  void Respond();
  void End(absl::Status status);
  absl::Status WhyCancelled() const;

  CallGate::Ticket ticket_;
  const CallEnvironment& environment_;
  const std::unique_ptr<EncodeMethod> method_;
  const grpc::ByteBuffer& request_;
  grpc::ByteBuffer* const response_;
  const absl::Time arrival_;
  std::atomic<bool> cancelled_{false};

  // The actor's own.
  CallDeadlines deadlines_;
  Timer::Alarm alarm_;
  bool submitted_ = false;
  bool ended_ = false;
  std::vector<Input> inputs_;
  size_t unanswered_ = 0;
  absl::Time first_start_ = absl::InfiniteFuture();  // the first input left the queue
  absl::Time last_start_ = absl::InfinitePast();
  absl::Time last_result_ = absl::InfinitePast();
  absl::Status status_;  // how the call ended
};

}  // namespace penstock
