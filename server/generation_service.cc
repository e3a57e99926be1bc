#include "server/generation_service.h"

#include <utility>

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

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* GenerationService::Generate(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  absl::StatusOr<CallGate::Ticket> ticket = gate_.Enter();
  if (ticket.ok()) return GenerateCall::Start(*std::move(ticket), metrics_, *context, *request);
  metrics_.OnCall("Generate", ticket.status().code(), absl::ZeroDuration());
  return new RefusedCall(ticket.status());
}

}  // namespace penstock
