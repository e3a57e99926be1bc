#pragma once

#include <grpcpp/support/byte_buffer.h>

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
#include "server/front.h"
#include "server/response_stream.h"
#include "server/timer.h"

namespace penstock {

// One call to a one-shot model, from request to answer: its inputs go to the encoder one by one
// and it ends when all have come back, when the first fails, or when its time is over.
class EncodeCall final : private ResponseStream::Reactor, public CallActor {
 public:
  // The ticket's model is a one-shot one; whatever else is wrong with the call is answered. Never
  // blocks.
  static void Start(CallGate::Ticket ticket, const Front& front,
                    std::unique_ptr<EncodeMethod> method, std::unique_ptr<ResponseStream> stream);

  // Use Start; public for std::make_shared.
  EncodeCall(CallGate::Ticket ticket, const Front& front, std::unique_ptr<EncodeMethod> method,
             std::unique_ptr<ResponseStream> stream);

 private:
  struct Input {
    std::shared_ptr<EncodeReply> reply;
    bool answered = false;
    EncodeOutput output;
  };

  // The stream's side.
  void OnWriteDone(bool /*ok*/) override {}
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
  void CancelInputs();
  absl::Status WhyCancelled() const;

  CallGate::Ticket ticket_;
  const CallEnvironment& environment_;
  const std::unique_ptr<EncodeMethod> method_;
  const std::unique_ptr<ResponseStream> stream_;
  const absl::Time arrival_;
  std::atomic<bool> cancelled_{false};

  // The actor's own.
  CallDeadlines deadlines_;
  Timer::Alarm alarm_;
  bool submitted_ = false;
  bool ended_ = false;
  std::vector<Input> inputs_;
  size_t unanswered_ = 0;
  grpc::ByteBuffer response_;
  absl::Time first_start_ = absl::InfiniteFuture();  // the first input left the queue
  absl::Time last_start_ = absl::InfinitePast();
  absl::Time last_result_ = absl::InfinitePast();
  absl::Status status_;  // how the call ended
};

}  // namespace penstock
