#include "server/tei/rerank_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/tei/v1/tei.pb.h"
#include "server/field_checks.h"
#include "server/model_call.h"
#include "server/raw_message.h"
#include "server/tei/tei_encode.h"
#include "shard/base/status_macros.h"

namespace penstock::tei {
namespace {

namespace wire = ::tei::v1;

// An RPC whose messages have become one request.
class GatheredStream final : public ResponseStream {
 public:
  GatheredStream(std::unique_ptr<RpcStream> rpc, grpc::ByteBuffer request)
      : rpc_(std::move(rpc)), request_(std::move(request)) {}

  const grpc::ByteBuffer& request() const override { return request_; }
  absl::Time client_deadline() const override { return rpc_->client_deadline(); }
  void Begin(Reactor& reactor) override { rpc_->Begin(reactor); }
  void Write(const grpc::ByteBuffer& message) override { rpc_->Write(message); }
  void Finish(const absl::Status& status) override { rpc_->Finish(status); }
  void WriteAndFinish(const grpc::ByteBuffer& message) override { rpc_->WriteAndFinish(message); }
  void Drop(const absl::Status& status) override { rpc_->Drop(status); }

 private:
  const std::unique_ptr<RpcStream> rpc_;
  const grpc::ByteBuffer request_;
};

class Gatherer final : public ResponseStream::Reactor {
 public:
  Gatherer(const Front& front, std::unique_ptr<RpcStream> rpc)
      : front_(front), rpc_(std::move(rpc)) {}

  void Start() {
    rpc_->Begin(*this);
    TakeMessage();
  }

 private:
  void TakeMessage() {
    if (const absl::Status status = Add(rpc_->request()); !status.ok())
      return Refuse(status);  // no read is outstanding, so nothing but OnDone() follows
    rpc_->Read();
  }

  absl::Status Add(const grpc::ByteBuffer& bytes) {
    bytes_ += bytes.Length() + kTextOverhead;
    if (bytes_ > kMostBytes)
      return absl::InvalidArgumentError(
          absl::StrCat("the stream has more than ", kMostBytes, " bytes"));
    ASSIGN_OR_RETURN(wire::RerankStreamRequest message,
                     ParseMessage<wire::RerankStreamRequest>(bytes, "query, text"));
    wire::RerankRequest flags;
    flags.set_query(message.query());
    flags.set_truncate(message.truncate());
    flags.set_raw_scores(message.raw_scores());
    flags.set_return_text(message.return_text());
    if (request_.texts_size() == 0) request_ = flags;
    const bool same = flags.query() == request_.query() &&
                      flags.truncate() == request_.truncate() &&
                      flags.raw_scores() == request_.raw_scores() &&
                      flags.return_text() == request_.return_text();
    if (!same)
      return absl::InvalidArgumentError(
          absl::StrCat("message ", request_.texts_size(),
                       " of the stream has another query or other flags than the first"));
    *request_.add_texts() = std::move(*message.mutable_text());
    return absl::OkStatus();
  }

  void Refuse(const absl::Status& status) {
    front_.environment.metrics.OnCall("tei.Rerank", status.code(), absl::ZeroDuration());
    rpc_->Finish(status);
  }

  void OnRead(bool ok) override {
    if (ok) return TakeMessage();
    if (cancelled_) return Refuse(absl::CancelledError("the call was cancelled"));
    auto stream = std::make_unique<GatheredStream>(std::move(rpc_), SerializeMessage(request_));
    StartEncode(front_, MakeRerank(), std::move(stream));
    delete this;  // the stream has another reactor now
  }
  void OnWriteDone(bool) override {}
  void OnCancel() override { cancelled_ = true; }  // the read fails, too
  void OnDone() override { delete this; }

  static constexpr size_t kMostBytes = 16 << 20;
  static constexpr size_t kTextOverhead = 64;  // what a text costs beside its bytes

  const Front& front_;
  std::unique_ptr<RpcStream> rpc_;
  wire::RerankRequest request_;
  size_t bytes_ = 0;
  bool cancelled_ = false;
};

}  // namespace

void StartRerankStream(const Front& front, std::unique_ptr<RpcStream> rpc) {
  (new Gatherer(front, std::move(rpc)))->Start();  // OnDone() or OnRead() deletes it
}

}  // namespace penstock::tei
