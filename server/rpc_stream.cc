#include "server/rpc_stream.h"

#include <grpc/grpc.h>

#include <optional>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "server/grpc_status.h"

namespace penstock {
namespace {

// What is already known is sent, and that is all.
class InstantAnswer final : public ResponseStream::Reactor {
 public:
  InstantAnswer(std::unique_ptr<ResponseStream> stream, std::optional<grpc::ByteBuffer> message,
                absl::Status status)
      : stream_(std::move(stream)), message_(std::move(message)), status_(std::move(status)) {}

  void Send() {
    stream_->Begin(*this);
    if (message_) return stream_->WriteAndFinish(*message_);
    stream_->Finish(status_);
  }

 private:
  void OnWriteDone(bool) override {}
  void OnCancel() override {}
  void OnDone() override { delete this; }

  const std::unique_ptr<ResponseStream> stream_;
  const std::optional<grpc::ByteBuffer> message_;
  const absl::Status status_;
};

}  // namespace

RpcStream::RpcStream(Method& method, CallLoop& loop) : method_(method), loop_(loop) {
  loop_.Enter();
}

void RpcStream::Listen(Method& method, CallLoop& loop) {
  auto* stream = new RpcStream(method, loop);              // OnRequested() takes it
  stream->context_.AsyncNotifyWhenDone(&stream->closed_);  // comes only if the request does
  method.Request(&stream->context_, &stream->peer_, &stream->requested_);
}

void RpcStream::OnRequested(bool ok) {
  if (!ok) return delete this;  // the server is shutting down
  Listen(method_, loop_);
  Read();
}

void RpcStream::Read() {
  ++open_ends_;
  request_.Clear();
  peer_.Read(&request_, &read_);
}

void RpcStream::OnRead(bool ok) {
  if (!std::exchange(accepted_, true)) {
    has_request_ = ok;
    method_.Accept(absl::WrapUnique(this));  // OnDone() is not called in there
    return EndOne();
  }
  reactor_->OnRead(ok);
  EndOne();
}

void RpcStream::OnClosed(bool) {
  cancelled_ = context_.IsCancelled();
  if (cancelled_ && reactor_ != nullptr) reactor_->OnCancel();
  EndOne();
}

void RpcStream::EndOne() {
  if (--open_ends_ == 0) reactor_->OnDone();
}

absl::Time RpcStream::client_deadline() const {
  const auto deadline = context_.deadline();
  return deadline == std::chrono::system_clock::time_point::max() ? absl::InfiniteFuture()
                                                                  : absl::FromChrono(deadline);
}

void RpcStream::Begin(Reactor& reactor) {
  reactor_ = &reactor;
  if (cancelled_) reactor_->OnCancel();
}

void RpcStream::Finish(const absl::Status& status) { peer_.Finish(ToGrpc(status), &finished_); }

void RpcStream::WriteAndFinish(const grpc::ByteBuffer& message) {
  peer_.WriteAndFinish(message, grpc::WriteOptions(), grpc::Status::OK, &finished_);
}

void RpcStream::Drop(const absl::Status& status) {
  grpc_call_cancel_with_status(context_.c_call(), static_cast<grpc_status_code>(status.code()),
                               std::string(status.message()).c_str(), nullptr);
}

void FinishAtOnce(std::unique_ptr<ResponseStream> stream, const absl::Status& status) {
  (new InstantAnswer(std::move(stream), std::nullopt, status))->Send();  // OnDone() deletes it
}

void AnswerAtOnce(std::unique_ptr<ResponseStream> stream,
                  absl::StatusOr<grpc::ByteBuffer> message) {
  if (!message.ok()) return FinishAtOnce(std::move(stream), message.status());
  (new InstantAnswer(std::move(stream), *std::move(message), absl::OkStatus()))->Send();
}

}  // namespace penstock
