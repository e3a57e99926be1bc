#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/call_actor.h"
#include "server/call_deadlines.h"
#include "server/call_environment.h"
#include "server/call_gate.h"
#include "server/front.h"
#include "server/generate_method.h"
#include "server/response_stream.h"
#include "server/sample.h"
#include "server/timer.h"

namespace penstock {

// One call that generates, from request to final status.
//
// A slow client: at most one write is outstanding, and what comes meanwhile gathers in the samples,
// at most CallBounds::max_unread_tokens of each. Beyond that the call leaves tokens in their
// stream, and the scheduler pauses the sequence. A client that takes nothing at all is given up
// after CallBounds::client_stall.
class GenerateCall final : private ResponseStream::Reactor, public CallActor {
 public:
  // On the front's loop, but for the parsing and encoding of a long request. The ticket's model is
  // one that generates; whatever else is wrong with the call is answered. Never blocks.
  static void Start(CallGate::Ticket ticket, const Front& front,
                    std::unique_ptr<GenerateMethod> method, std::unique_ptr<ResponseStream> stream);

  // Use Start; public for std::make_shared.
  GenerateCall(CallGate::Ticket ticket, const Front& front, std::unique_ptr<GenerateMethod> method,
               std::unique_ptr<ResponseStream> stream);

 private:
  // The stream's side.
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  // The actor's side.
  void Turn() override;
  void Abandon(bool writing);
  absl::Status Submit();
  absl::Status SubmitPrompt(size_t prompt, const v1::GenerateRequest& request);
  absl::Status AbsorbAll(bool writing);
  bool IsFull(const Sample& sample) const;
  bool AwaitWrite();
  void Write();
  void Respond();
  bool HasMore() const;
  bool AllFinished() const;
  bool writing() const { return write_.load() != WriteState::kNone; }
  CallPhase Phase() const;
  absl::Status CheckDeadlines();
  void SetAlarm();
  void GiveUp(bool writing, absl::Status why);
  void CancelSamples();
  void End(absl::Status status);
  absl::Status WhyCancelled() const;

  CallGate::Ticket ticket_;
  const CallEnvironment& environment_;
  const std::unique_ptr<GenerateMethod> method_;
  const std::unique_ptr<ResponseStream> stream_;
  const absl::Time arrival_;
  std::atomic<bool> cancelled_{false};
  // Most writes end with nothing more to be done, so their end wakes the call only when a turn has
  // come to wait for it.
  enum class WriteState : uint8_t { kNone, kOutstanding, kAwaited };
  std::atomic<WriteState> write_{WriteState::kNone};

  // The actor's own.
  CallDeadlines deadlines_;
  Timer::Alarm alarm_;
  bool submitted_ = false;
  bool ended_ = false;
  absl::Status given_up_;         // why, while gRPC lets go of the write that is outstanding
  std::deque<Sample> samples_;    // Sample does not move
  std::vector<size_t> prompts_;   // of each sample: which of the request's prompts it is of
  size_t next_ = 0;               // the sample that may write next
  bool method_finished_ = false;  // it has appended its last messages
  std::vector<grpc::ByteBuffer> outbox_;
  size_t sent_ = 0;      // of the outbox; the last one of them is being written
  absl::Status status_;  // how the call ended
};

}  // namespace penstock
