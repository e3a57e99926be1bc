#include "server/tei/tei_services.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/tei/v1/tei.pb.h"
#include "server/field_checks.h"
#include "server/model_call.h"
#include "server/multi_stream.h"
#include "server/raw_message.h"
#include "server/tei/rerank_stream.h"
#include "server/tei/tei_encode.h"
#include "server/text/unicode.h"
#include "server/text_call.h"
#include "shard/base/status_macros.h"

namespace penstock::tei {
namespace {

namespace wire = ::tei::v1;

using Begin = std::function<void(std::unique_ptr<ResponseStream>)>;

// One answer to each request, in their order; the first failure ends the stream.
class OneToOne final : public MultiProtocol {
 public:
  explicit OneToOne(Begin begin) : begin_(std::move(begin)) {}
  void Accept(std::unique_ptr<ResponseStream> stream) override { begin_(std::move(stream)); }
  std::optional<grpc::ByteBuffer> Failure(const grpc::ByteBuffer& /*request*/,
                                          const absl::Status& /*status*/) override {
    return std::nullopt;
  }

 private:
  const Begin begin_;
};

RpcService::Handler Single(Begin begin) {
  return [begin = std::move(begin)](std::unique_ptr<RpcStream> rpc) { begin(std::move(rpc)); };
}

RpcService::Handler Several(Begin begin, CallLoop& loop) {
  return [begin = std::move(begin), &loop](std::unique_ptr<RpcStream> rpc) {
    MultiStream::Start(std::move(rpc), std::make_unique<OneToOne>(begin), {.ordered = true}, loop);
  };
}

Begin Encoding(const Front& front, std::unique_ptr<EncodeMethod> (*make)()) {
  return [&front, make](std::unique_ptr<ResponseStream> stream) {
    StartEncode(front, make(), std::move(stream));
  };
}

wire::ModelType TypeOf(const ServedModel& model) {
  if (model.kind() != "classify") return wire::MODEL_TYPE_EMBEDDING;
  return model.encoder->labels.size() == 1 ? wire::MODEL_TYPE_RERANKER
                                           : wire::MODEL_TYPE_CLASSIFIER;
}

absl::StatusOr<grpc::ByteBuffer> TellInfo(const Front& front) {
  ASSIGN_OR_RETURN(const CallGate::Ticket ticket, front.gate.Enter());
  const ServedModel& model = ticket.context().model;
  if (!model.encoder)
    return absl::FailedPreconditionError(
        absl::StrCat("tei.Info tells of one-shot models; \"", model.name, "\" generates"));
  const auto steps = static_cast<uint32_t>(model.info.max_step_tokens);
  wire::InfoResponse response;
  response.set_version(PENSTOCK_VERSION);
  response.set_model_id(model.name);
  response.set_model_dtype(model.dtype);
  response.set_model_type(TypeOf(model));
  response.set_max_concurrent_requests(static_cast<uint32_t>(model.max_queued));
  response.set_max_input_length(std::min(steps, static_cast<uint32_t>(model.info.max_context)));
  response.set_max_batch_tokens(steps);
  response.set_max_batch_requests(static_cast<uint32_t>(model.info.max_sequences));
  response.set_max_client_batch_size(static_cast<uint32_t>(model.limits.max_inputs));
  response.set_tokenization_workers(static_cast<uint32_t>(ticket.context().text_pool.threads()));
  return SerializeMessage(response);
}

absl::StatusOr<std::vector<grpc::ByteBuffer>> TokenizeText(const grpc::ByteBuffer& bytes,
                                                           const ServedModel& model) {
  ASSIGN_OR_RETURN(const wire::EncodeRequest request,
                   ParseMessage<wire::EncodeRequest>(bytes, "inputs"));
  RETURN_IF_ERROR(CheckTextSize("inputs", request.inputs().size(), model));
  const std::vector<int32_t> ids = model.tokenizer.Encode(
      request.inputs(), {.add_special_tokens = request.add_special_tokens()});
  wire::EncodeResponse response;
  for (int32_t id : ids) {
    wire::SimpleToken* token = response.add_tokens();
    token->set_id(static_cast<uint32_t>(id));
    token->set_text(ReplaceInvalidUtf8(model.tokenizer.Bytes(id, /*first=*/false)));
    token->set_special(model.tokenizer.IsSpecial(id));
  }
  return std::vector<grpc::ByteBuffer>{SerializeMessage(response)};
}

}  // namespace

InfoService::InfoService(const Front& front) : RpcService("tei.v1.Info", front) {
  AddAnswer("Info", "tei.Info", [&front](const grpc::ByteBuffer&) { return TellInfo(front); });
}

EmbedService::EmbedService(const Front& front) : RpcService("tei.v1.Embed", front) {
  const Begin begin = Encoding(front, MakeEmbed);
  AddRpc("Embed", Single(begin));
  AddStream("EmbedStream", Several(begin, front.loop));
  for (const char* rpc : {"EmbedRaw", "EmbedRawStream"})
    AddRefusal(rpc, "tei.EmbedRaw", "this server pools; it gives no vectors of single tokens");
}

PredictService::PredictService(const Front& front) : RpcService("tei.v1.Predict", front) {
  const Begin begin = Encoding(front, MakePredict);
  AddRpc("Predict", Single(begin));
  AddStream("PredictStream", Several(begin, front.loop));
}

RerankService::RerankService(const Front& front) : RpcService("tei.v1.Rerank", front) {
  AddRpc("Rerank", Single(Encoding(front, MakeRerank)));
  AddRpc("RerankStream",
         [&front](std::unique_ptr<RpcStream> rpc) { StartRerankStream(front, std::move(rpc)); });
}

TokenizeService::TokenizeService(const Front& front) : RpcService("tei.v1.Tokenize", front) {
  const Begin begin = [&front](std::unique_ptr<ResponseStream> stream) {
    StartText(front, "tei.Tokenize", TokenizeText, std::move(stream));
  };
  AddRpc("Tokenize", Single(begin));
  AddStream("TokenizeStream", Several(begin, front.loop));
}

}  // namespace penstock::tei
