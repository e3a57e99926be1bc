#include "server/text_call.h"

#include <atomic>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "server/call_actor.h"
#include "server/call_deadlines.h"
#include "server/call_gate.h"
#include "server/model_call.h"
#include "server/timer.h"

namespace penstock {
namespace {

class TextCall final : private ResponseStream::Reactor, public CallActor {
 public:
  TextCall(CallGate::Ticket ticket, const Front& front, absl::string_view method,
           TextFunction function, std::unique_ptr<ResponseStream> stream)
      : CallActor(ticket.context().text_pool),
        ticket_(std::move(ticket)),
        metrics_(front.environment.metrics),
        method_(method),
        function_(std::move(function)),
        stream_(std::move(stream)),
        deadlines_(arrival_, stream_->client_deadline(), front.environment.bounds),
        alarm_(front.environment.timer, [this] { Wake(); }) {}  // End() silences it before we go

  void Start() {
    stream_->Begin(*this);
    Begin(kShortRequest + 1, ticket_.context().text_pool);  // whatever it asks for may take long
  }

 private:
  void Turn() override {
    if (ended_) return;
    if (!answered_) Answer();
    const bool writing = writing_.load();
    if (status_.ok() && cancelled_.load()) status_ = absl::CancelledError("the call was cancelled");
    if (status_.ok() && writing)
      status_ = deadlines_.Check(absl::Now(), CallPhase::kWrite, /*writing=*/true);
    if (!status_.ok()) return writing ? GiveUp() : End();
    if (!writing) WriteNext();
  }

  void Answer() {
    answered_ = true;
    const TaskPool::LongTask task(ticket_.context().text_pool);
    absl::StatusOr<std::vector<grpc::ByteBuffer>> messages =
        function_(stream_->request(), ticket_.context().model);
    if (messages.ok())
      messages_ = *std::move(messages);
    else
      status_ = messages.status();
  }

  void WriteNext() {
    if (next_ == messages_.size()) return End();
    if (next_ + 1 == messages_.size()) {
      ended_ = true;
      alarm_.Cancel();
      return stream_->WriteAndFinish(messages_[next_]);
    }
    deadlines_.OnWriteBegin(absl::Now());
    alarm_.Set(deadlines_.Next(CallPhase::kWrite, /*writing=*/true));
    writing_.store(true);
    stream_->Write(messages_[next_++]);
  }

  void GiveUp() {  // OnWriteDone() brings us back
    if (!std::exchange(given_up_, true)) stream_->Drop(status_);
  }

  void End() {
    ended_ = true;
    alarm_.Cancel();
    stream_->Finish(status_);
  }

  void OnWriteDone(bool ok) override {
    if (!ok) cancelled_.store(true);
    writing_.store(false);
    Wake();
  }
  void OnCancel() override {
    cancelled_.store(true);
    Wake();
  }
  void OnDone() override {
    metrics_.OnCall(method_, status_.code(), absl::Now() - arrival_);
    ticket_.Leave();
    Release();
  }

  CallGate::Ticket ticket_;
  Metrics& metrics_;
  const absl::string_view method_;
  const TextFunction function_;
  const std::unique_ptr<ResponseStream> stream_;
  const absl::Time arrival_ = absl::Now();
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> writing_{false};

  // The actor's own.
  CallDeadlines deadlines_;
  Timer::Alarm alarm_;
  bool answered_ = false, given_up_ = false, ended_ = false;
  std::vector<grpc::ByteBuffer> messages_;
  size_t next_ = 0;  // that is not written yet
  absl::Status status_;
};

}  // namespace

void StartText(const Front& front, absl::string_view method, TextFunction function,
               std::unique_ptr<ResponseStream> stream) {
  absl::StatusOr<CallGate::Ticket> ticket = front.gate.Enter();
  if (!ticket.ok()) return RefuseCall(front, method, ticket.status(), std::move(stream));
  std::make_shared<TextCall>(*std::move(ticket), front, method, std::move(function),
                             std::move(stream))
      ->Start();
}

}  // namespace penstock
