#include "server/generation_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/generate_call.h"
#include "server/grpc_status.h"

namespace penstock {
namespace {

// A call that ends before it began.
class RefusedCall final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  explicit RefusedCall(const absl::Status& why) { Finish(ToGrpc(why)); }
  void OnDone() override { delete this; }
};

absl::Status OneShot(const ServingContext& context) {
  return absl::FailedPreconditionError(absl::StrCat(
      "Generate needs a model that generates; \"", context.model.name, "\" is of the kind \"",
      context.model.kind(), "\" (penstock.v1.Encoding serves it)"));
}

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* GenerationService::Generate(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  absl::StatusOr<CallGate::Ticket> ticket = gate_.Enter();
  if (ticket.ok() && ticket->context().generator == nullptr) ticket = OneShot(ticket->context());
  if (ticket.ok()) return GenerateCall::Start(*std::move(ticket), environment_, *context, *request);
  environment_.metrics.OnCall("Generate", ticket.status().code(), absl::ZeroDuration());
  return new RefusedCall(ticket.status());
}

}  // namespace penstock
