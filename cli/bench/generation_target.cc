// Penstock's own protocol: generation.

#include <memory>
#include <utility>

#include "cli/bench/calls.h"
#include "cli/bench/target.h"
#include "proto/penstock/v1/generation.grpc.pb.h"

namespace penstock {
namespace {

v1::GenerateRequest MakeGenerateRequest(const PlannedRequest& planned,
                                        const Target::Options& options) {
  v1::GenerateRequest request;
  request.set_model(options.model);
  const PromptInput& prompt = planned.inputs.front();
  if (prompt.tokens.empty()) {
    request.set_text(prompt.text);
  } else {
    request.mutable_tokens()->mutable_ids()->Assign(prompt.tokens.begin(), prompt.tokens.end());
  }
  request.mutable_sampling()->set_temperature(options.temperature);
  request.mutable_stopping()->set_max_tokens(static_cast<uint32_t>(planned.output_tokens));
  request.mutable_stopping()->set_ignore_eos(options.ignore_eos);
  if (options.priority) request.mutable_scheduling()->set_priority(*options.priority);
  return request;
}

class GenerateStream final : public RecordedCall,
                             public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  GenerateStream(const PlannedRequest& planned, std::optional<absl::Duration> intended,
                 const Target::Options& options, const CallContext& context,
                 v1::Generation::Stub& stub)
      : RecordedCall(planned, intended, options, context),
        stub_(stub),
        request_(MakeGenerateRequest(planned, options)) {}

 private:
  void Begin() override {
    stub_.async()->Generate(&client_, &request_, this);
    StartRead(&message_);
    StartCall();
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    AddTokens(message_.token_ids_size());
    if (message_.finish_reason() != v1::FINISH_REASON_UNSPECIFIED) {
      finished_ = true;
      record_.prompt_tokens = message_.usage().prompt_tokens();
      record_.cached_prompt_tokens = message_.usage().cached_prompt_tokens();
      record_.queue = absl::Seconds(message_.timings().queue_seconds());
    }
    StartRead(&message_);
  }
  void OnDone(const grpc::Status& status) override {
    if (status.ok() && !finished_) {
      End(absl::DataLossError("the stream ended without a finish reason"));
    } else {
      End(FromGrpc(status));
    }
  }

  v1::Generation::Stub& stub_;
  const v1::GenerateRequest request_;
  v1::GenerateResponse message_;
  bool finished_ = false;
};

class GenerationTarget final : public Target {
 public:
  explicit GenerationTarget(const Options& options) : options_(options), stubs_(options) {}

  std::shared_ptr<Call> Prepare(const PlannedRequest& planned,
                                std::optional<absl::Duration> intended,
                                const CallContext& context) override {
    return std::make_shared<GenerateStream>(planned, intended, options_, context, stubs_.Next());
  }

 private:
  const Options options_;
  Stubs<v1::Generation> stubs_;
};

}  // namespace

std::unique_ptr<Target> MakeGenerationTarget(const Target::Options& options) {
  return std::make_unique<GenerationTarget>(options);
}

}  // namespace penstock
