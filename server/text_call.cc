#include "server/text_call.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "server/call_gate.h"
#include "server/model_call.h"

namespace penstock {
namespace {

class TextCall final : public ResponseStream::Reactor {
 public:
  TextCall(CallGate::Ticket ticket, const Front& front, absl::string_view method,
           TextFunction function, std::unique_ptr<ResponseStream> stream)
      : ticket_(std::move(ticket)),
        metrics_(front.environment.metrics),
        method_(method),
        function_(std::move(function)),
        stream_(std::move(stream)) {}

  // OnDone() deletes it.
  void Start() {
    stream_->Begin(*this);
    ticket_.context().text_pool.Post([this] { Answer(); });
  }

 private:
  void Answer() {
    if (stream_->request().Length() > kLongRequest) {
      const TaskPool::LongTask task(ticket_.context().text_pool);
      response_ = function_(stream_->request(), ticket_.context().model);
    } else {
      response_ = function_(stream_->request(), ticket_.context().model);
    }
    if (response_.ok()) return stream_->WriteAndFinish(*response_);
    stream_->Finish(response_.status());
  }
  void OnWriteDone(bool) override {}
  void OnCancel() override {}
  void OnDone() override {
    metrics_.OnCall(method_, response_.status().code(), absl::Now() - arrival_);
    ticket_.Leave();
    delete this;
  }

  static constexpr size_t kLongRequest =
      4096;  // bytes that take longer than other calls should wait

  CallGate::Ticket ticket_;
  Metrics& metrics_;
  const absl::string_view method_;
  const TextFunction function_;
  const std::unique_ptr<ResponseStream> stream_;
  const absl::Time arrival_ = absl::Now();
  absl::StatusOr<grpc::ByteBuffer> response_ = absl::UnknownError("not answered yet");
};

}  // namespace

void StartText(const Front& front, absl::string_view method, TextFunction function,
               std::unique_ptr<ResponseStream> stream) {
  absl::StatusOr<CallGate::Ticket> ticket = front.gate.Enter();
  if (!ticket.ok()) return RefuseCall(front, method, ticket.status(), std::move(stream));
  (new TextCall(*std::move(ticket), front, method, std::move(function), std::move(stream)))
      ->Start();
}

}  // namespace penstock
