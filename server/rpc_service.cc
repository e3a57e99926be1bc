#include "server/rpc_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace penstock {

void RpcService::Add(absl::string_view rpc, Handler handler, bool may_be_empty) {
  const auto index = static_cast<int>(rpcs_.size());
  rpcs_.push_back(std::make_unique<Rpc>(*this, index, absl::StrCat("/", name_, "/", rpc),
                                        std::move(handler), may_be_empty));
  AddMethod(new grpc::internal::RpcServiceMethod(  // the service owns it
      rpcs_.back()->path().c_str(), grpc::internal::RpcMethod::BIDI_STREAMING, nullptr));
  MarkMethodRaw(index);
}

void RpcService::AddAnswer(absl::string_view rpc, std::string method, Answer answer) {
  AddRpc(rpc, [this, method = std::move(method),
               answer = std::move(answer)](std::unique_ptr<RpcStream> stream) {
    const absl::Time begin = absl::Now();
    absl::StatusOr<grpc::ByteBuffer> message = answer(stream->request());
    front_.environment.metrics.OnCall(method, message.status().code(), absl::Now() - begin);
    AnswerAtOnce(std::move(stream), std::move(message));
  });
}

void RpcService::AddRefusal(absl::string_view rpc, std::string method, std::string why) {
  AddAnswer(rpc, std::move(method), [why = std::move(why)](const grpc::ByteBuffer&) {
    return absl::StatusOr<grpc::ByteBuffer>(absl::UnimplementedError(why));
  });
}

void RpcService::Listen() {
  for (const std::unique_ptr<Rpc>& rpc : rpcs_) RpcStream::Listen(*rpc, front_.loop);
}

void RpcService::Rpc::Request(grpc::ServerContext* context, RpcStream::Peer* peer, void* tag) {
  grpc::ServerCompletionQueue& queue = service_.front_.loop.queue();
  service_.RequestAsyncBidiStreaming(index_, context, peer, &queue, &queue, tag);
}

void RpcService::Rpc::Accept(std::unique_ptr<RpcStream> stream) {
  if (stream->has_request()) return handler_(std::move(stream));
  FinishAtOnce(std::move(stream),
               may_be_empty_ ? absl::OkStatus()
                             : absl::InvalidArgumentError("the call has no request message"));
}

}  // namespace penstock
