#include "server/generation_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/generate_call.h"
#include "server/grpc_status.h"

namespace penstock {
namespace {

// A call that ends before it began.
class RefusedCall final : public ServerStream::Reactor {
 public:
  static void Start(std::unique_ptr<ServerStream> stream, const absl::Status& why) {
    auto* call = new RefusedCall(std::move(stream));  // OnDone() takes it
    call->stream_->Begin(*call);
    call->stream_->Finish(ToGrpc(why));
  }

 private:
  explicit RefusedCall(std::unique_ptr<ServerStream> stream) : stream_(std::move(stream)) {}
  void OnWriteDone(bool) override {}
  void OnCancel() override {}
  void OnDone() override { delete this; }

  const std::unique_ptr<ServerStream> stream_;
};

absl::Status OneShot(const ServingContext& context) {
  return absl::FailedPreconditionError(absl::StrCat(
      "Generate needs a model that generates; \"", context.model.name, "\" is of the kind \"",
      context.model.kind(), "\" (penstock.v1.Encoding serves it)"));
}

}  // namespace

void GenerationService::Listen(CallLoop& loop) {
  loop_ = &loop;
  ServerStream::Listen(*this);
}

void GenerationService::Request(grpc::ServerContext* context, grpc::ByteBuffer* request,
                                ServerStream::Writer* writer, void* tag) {
  RequestGenerate(context, request, writer, &loop_->queue(), &loop_->queue(), tag);
}

void GenerationService::Accept(std::unique_ptr<ServerStream> stream) {
  absl::StatusOr<CallGate::Ticket> ticket = gate_.Enter();
  if (ticket.ok() && ticket->context().generator == nullptr) ticket = OneShot(ticket->context());
  if (ticket.ok())
    return GenerateCall::Start(*std::move(ticket), environment_, *loop_, std::move(stream));
  environment_.metrics.OnCall("Generate", ticket.status().code(), absl::ZeroDuration());
  RefusedCall::Start(std::move(stream), ticket.status());
}

}  // namespace penstock
