#include "server/encoding_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/encode_call.h"
#include "server/grpc_status.h"

namespace penstock {
namespace {

absl::StatusOr<CallGate::Ticket> Enter(CallGate& gate, absl::string_view rpc) {
  absl::StatusOr<CallGate::Ticket> ticket = gate.Enter();
  if (!ticket.ok() || ticket->context().encoder != nullptr) return ticket;
  const ServedModel& model = ticket->context().model;
  return absl::FailedPreconditionError(absl::StrCat(rpc, " needs a one-shot model; \"", model.name,
                                                    "\" is of the kind \"", model.kind(),
                                                    "\" (penstock.v1.Generation serves it)"));
}

}  // namespace

grpc::ServerUnaryReactor* EncodingService::Embed(grpc::CallbackServerContext* context,
                                                 const grpc::ByteBuffer* request,
                                                 grpc::ByteBuffer* response) {
  return Start(MakeEmbedMethod(), *context, *request, response);
}

grpc::ServerUnaryReactor* EncodingService::Classify(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request,
                                                    grpc::ByteBuffer* response) {
  return Start(MakeClassifyMethod(), *context, *request, response);
}

grpc::ServerUnaryReactor* EncodingService::Score(grpc::CallbackServerContext* context,
                                                 const grpc::ByteBuffer* request,
                                                 grpc::ByteBuffer* response) {
  return Start(MakeScoreMethod(), *context, *request, response);
}

grpc::ServerUnaryReactor* EncodingService::Start(std::unique_ptr<EncodeMethod> method,
                                                 grpc::CallbackServerContext& context,
                                                 const grpc::ByteBuffer& request,
                                                 grpc::ByteBuffer* response) {
  absl::StatusOr<CallGate::Ticket> ticket = Enter(gate_, method->name());
  if (ticket.ok())
    return EncodeCall::Start(*std::move(ticket), environment_, std::move(method), context, request,
                             response);
  environment_.metrics.OnCall(method->name(), ticket.status().code(), absl::ZeroDuration());
  grpc::ServerUnaryReactor* reactor = context.DefaultReactor();
  reactor->Finish(ToGrpc(ticket.status()));
  return reactor;
}

}  // namespace penstock
