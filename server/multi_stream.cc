#include "server/multi_stream.h"

#include <algorithm>
#include <utility>

namespace penstock {

// The part of the RPC that answers one request.
class MultiStream::Answer final : public ResponseStream {
 public:
  Answer(std::shared_ptr<MultiStream> parent, grpc::ByteBuffer request)
      : parent_(std::move(parent)), request_(std::move(request)) {}

  const grpc::ByteBuffer& request() const override { return request_; }
  absl::Time client_deadline() const override { return parent_->rpc_->client_deadline(); }
  void Begin(Reactor& reactor) override { reactor_ = &reactor; }
  void Write(const grpc::ByteBuffer& message) override {
    Post([this, &message] {
      message_ = &message;
      parent_->Offer(*this);
    });
  }
  void WriteAndFinish(const grpc::ByteBuffer& message) override {
    Post([this, &message] {
      message_ = &message;
      finish_ = true;
      parent_->Offer(*this);
    });
  }
  void Finish(const absl::Status& status) override {
    Post([this, status] {
      finish_ = true;
      status_ = status;
      parent_->Offer(*this);
    });
  }
  void Drop(const absl::Status& status) override {
    Post([this, status] { parent_->Withdraw(*this, status); });
  }

 private:
  friend class MultiStream;
  template <typename Task>
  void Post(Task task) {
    parent_->loop_.Post([parent = parent_, task] { task(); });
  }

  const std::shared_ptr<MultiStream> parent_;
  const grpc::ByteBuffer request_;
  Reactor* reactor_ = nullptr;
  const grpc::ByteBuffer* message_ = nullptr;  // to be sent, or being sent
  bool finish_ = false;                        // behind it
  absl::Status status_;
  std::optional<grpc::ByteBuffer> failure_;  // what tells of the status
};

void MultiStream::Start(std::unique_ptr<RpcStream> rpc, std::unique_ptr<MultiProtocol> protocol,
                        const MultiStreamOptions& options, CallLoop& loop) {
  auto stream = std::make_shared<MultiStream>(std::move(rpc), std::move(protocol), options, loop);
  stream->self_ = stream;
  stream->rpc_->Begin(*stream);
  if (!stream->Closing()) stream->TakeRequest();
}

void MultiStream::TakeRequest() {
  auto answer = std::make_unique<Answer>(shared_from_this(), rpc_->request());
  answers_.push_back(answer.get());
  bytes_ += answer->request_.Length();
  protocol_->Accept(std::move(answer));
  ReadNext();
}

void MultiStream::ReadNext() {
  if (reading_ || half_closed_ || Closing()) return;
  if (answers_.size() >= options_.max_in_flight || bytes_ >= options_.max_bytes) return;
  reading_ = true;
  rpc_->Read();
}

void MultiStream::OnRead(bool ok) {
  reading_ = false;
  if (ok && !Closing()) return TakeRequest();
  half_closed_ = true;
  FinishIfDone();
}

void MultiStream::Offer(Answer& answer) {
  ready_.push_back(&answer);
  Pump();
}

// Its message is not to be sent any more.
void MultiStream::Withdraw(Answer& answer, const absl::Status& why) {
  // A write that does not end is held back by flow control: the client takes nothing at all.
  if (writing_ == &answer) return rpc_->Drop(why);
  const auto waiting = std::find(ready_.begin(), ready_.end(), &answer);
  if (waiting == ready_.end()) return;
  ready_.erase(waiting);
  answer.message_ = nullptr;
  answer.reactor_->OnWriteDone(false);
}

void MultiStream::Pump() {
  while (writing_ == nullptr && !last_) {
    Answer* answer = NextReady();
    if (answer == nullptr || !Send(*answer)) break;
  }
  FinishIfDone();
}

MultiStream::Answer* MultiStream::NextReady() {
  auto next = ready_.begin();
  if (options_.ordered && !Closing() && !answers_.empty())
    next = std::find(ready_.begin(), ready_.end(), answers_.front());
  if (next == ready_.end()) return nullptr;
  Answer* answer = *next;
  ready_.erase(next);
  return answer;
}

// False: a write has begun.
bool MultiStream::Send(Answer& answer) {
  if (Closing()) {
    if (answer.finish_)
      Remove(answer);
    else
      answer.reactor_->OnWriteDone(false);
    return true;
  }
  if (answer.message_ == nullptr && answer.status_.ok()) {
    Remove(answer);
    return true;
  }
  if (answer.message_ == nullptr) {
    answer.failure_ = protocol_->Failure(answer.request_, answer.status_);
    if (!answer.failure_) {
      status_ = answer.status_;
      Remove(answer);
      EndAll(status_);
      return true;
    }
  }
  writing_ = &answer;
  rpc_->Write(answer.failure_ ? *answer.failure_ : *answer.message_);
  return false;
}

void MultiStream::OnWriteDone(bool ok) {
  if (writing_ != nullptr) {
    Answer& answer = *std::exchange(writing_, nullptr);
    answer.message_ = nullptr;
    if (answer.finish_)
      Remove(answer);
    else
      answer.reactor_->OnWriteDone(ok);
  }
  last_.reset();
  Pump();
}

void MultiStream::Remove(Answer& answer) {
  answers_.erase(std::find(answers_.begin(), answers_.end(), &answer));
  bytes_ -= answer.request_.Length();
  answer.reactor_->OnDone();  // the answer may be gone now
  ReadNext();
}

void MultiStream::OnCancel() {
  cancelled_ = true;
  EndAll(absl::CancelledError("the call was cancelled"));
}

void MultiStream::EndAll(const absl::Status& why) {
  if (status_.ok()) status_ = why;
  for (Answer* answer : std::deque<Answer*>(answers_)) answer->reactor_->OnCancel();
  Pump();
}

void MultiStream::FinishIfDone() {
  if (finished_ || !answers_.empty() || writing_ != nullptr || last_) return;
  if (!half_closed_ && !Closing()) return;
  if (!Closing() && !std::exchange(asked_last_, true) && (last_ = protocol_->Last()))
    return rpc_->Write(*last_);
  finished_ = true;
  rpc_->Finish(status_);
}

}  // namespace penstock
