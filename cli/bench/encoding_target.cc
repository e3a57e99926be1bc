// Penstock's own protocol: embeddings.

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "cli/bench/calls.h"
#include "cli/bench/target.h"
#include "proto/penstock/v1/encoding.grpc.pb.h"

namespace penstock {
namespace {

v1::EmbedRequest MakeEmbedRequest(const PlannedRequest& planned, const Target::Options& options) {
  v1::EmbedRequest request;
  request.set_model(options.model);
  for (const PromptInput& prompt : planned.inputs) {
    v1::Input* input = request.add_inputs();
    if (prompt.tokens.empty()) {
      input->set_text(prompt.text);
    } else {
      input->mutable_tokens()->mutable_ids()->Assign(prompt.tokens.begin(), prompt.tokens.end());
    }
  }
  if (options.priority) request.mutable_scheduling()->set_priority(*options.priority);
  return request;
}

int64_t Read(const v1::EmbedResponse& response, RequestRecord* record) {
  record->prompt_tokens = 0;
  for (const v1::Embedding& embedding : response.embeddings())
    record->prompt_tokens += embedding.tokens();
  record->queue = absl::Seconds(response.timings().queue_seconds());
  return 0;
}

class EncodingTarget final : public Target {
 public:
  explicit EncodingTarget(const Options& options) : options_(options), stubs_(options) {}

  std::shared_ptr<Call> Prepare(const PlannedRequest& planned,
                                std::optional<absl::Duration> intended,
                                const CallContext& context) override {
    const auto request = std::make_shared<v1::EmbedRequest>(MakeEmbedRequest(planned, options_));
    const auto begin = [this, request](grpc::ClientContext* client, v1::EmbedResponse* response,
                                       std::function<void(grpc::Status)> done) {
      stubs_.Next().async()->Embed(client, request.get(), response, std::move(done));
    };
    return std::make_shared<UnaryCall<v1::EmbedResponse>>(planned, intended, options_, context,
                                                          begin, Read);
  }

 private:
  const Options options_;
  Stubs<v1::Encoding> stubs_;
};

}  // namespace

std::unique_ptr<Target> MakeEncodingTarget(const Target::Options& options) {
  return std::make_unique<EncodingTarget>(options);
}

}  // namespace penstock
