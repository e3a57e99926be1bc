#include "server/model_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/encode_call.h"
#include "server/generate_call.h"
#include "server/rpc_stream.h"

namespace penstock {
namespace {

absl::Status WrongKind(absl::string_view method, absl::string_view needs, const ServedModel& model,
                       absl::string_view service) {
  return absl::FailedPreconditionError(absl::StrCat(method, " needs a ", needs, "; \"", model.name,
                                                    "\" is of the kind \"", model.kind(), "\" (",
                                                    service, " serves it)"));
}

}  // namespace

bool CanServe(const Front& front) {
  const absl::StatusOr<CallGate::Ticket> ticket = front.gate.Enter();
  return ticket.ok() && ticket->context().state().healthy;
}

void RefuseCall(const Front& front, absl::string_view method, const absl::Status& why,
                std::unique_ptr<ResponseStream> stream) {
  front.environment.metrics.OnCall(method, why.code(), absl::ZeroDuration());
  FinishAtOnce(std::move(stream), why);
}

void StartGenerate(const Front& front, std::unique_ptr<GenerateMethod> method,
                   std::unique_ptr<ResponseStream> stream) {
  absl::StatusOr<CallGate::Ticket> ticket = front.gate.Enter();
  if (ticket.ok() && ticket->context().generator == nullptr)
    ticket = WrongKind(method->name(), "model that generates", ticket->context().model,
                       "penstock.v1.Encoding");
  if (!ticket.ok()) return RefuseCall(front, method->name(), ticket.status(), std::move(stream));
  GenerateCall::Start(*std::move(ticket), front, std::move(method), std::move(stream));
}

void StartEncode(const Front& front, std::unique_ptr<EncodeMethod> method,
                 std::unique_ptr<ResponseStream> stream) {
  absl::StatusOr<CallGate::Ticket> ticket = front.gate.Enter();
  if (ticket.ok() && ticket->context().encoder == nullptr)
    ticket = WrongKind(method->name(), "one-shot model", ticket->context().model,
                       "penstock.v1.Generation");
  if (!ticket.ok()) return RefuseCall(front, method->name(), ticket.status(), std::move(stream));
  EncodeCall::Start(*std::move(ticket), front, std::move(method), std::move(stream));
}

}  // namespace penstock
