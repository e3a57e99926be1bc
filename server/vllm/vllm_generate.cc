#include "server/vllm/vllm_generate.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/vllm/vllm_engine.pb.h"
#include "server/encode_inputs.h"
#include "server/encode_results.h"
#include "server/field_checks.h"
#include "server/raw_message.h"
#include "shard/base/status_macros.h"

namespace penstock::vllm {
namespace {

namespace wire = ::vllm::grpc::engine;

absl::Status NotDone(absl::string_view field) {
  return absl::UnimplementedError(absl::StrCat(field, " is not supported"));
}

// The first field of the request that asks for what this server does not do.
absl::Status CheckSupported(const wire::GenerateRequest& request) {
  const wire::SamplingParams& sampling = request.sampling_params();
  if (sampling.constraint_case() != wire::SamplingParams::CONSTRAINT_NOT_SET) {
    const auto* field =
        wire::SamplingParams::descriptor()->FindFieldByNumber(sampling.constraint_case());
    return NotDone(absl::StrCat("sampling_params.", field->name()));
  }
  if (sampling.grammar_from_first_token())
    return NotDone("sampling_params.grammar_from_first_token");
  if (sampling.has_prompt_logprobs()) return NotDone("sampling_params.prompt_logprobs");
  if (request.has_kv_transfer_params()) return NotDone("kv_transfer_params");
  if (!request.kv_transfer_params_json().empty()) return NotDone("kv_transfer_params_json");
  if (request.has_mm_inputs()) return NotDone("mm_inputs");
  if (request.extra_mm_inputs_size() > 0) return NotDone("extra_mm_inputs");
  if (request.has_media_refs()) return NotDone("media_refs");
  if (request.data_parallel_rank() > 0) return NotDone("data_parallel_rank above 0");
  return absl::OkStatus();
}

// The prompt becomes ids here, so that it can be counted and cut.
absl::Status ReadPrompt(const wire::GenerateRequest& request, const ServedModel& model,
                        v1::TokenIds* to) {
  switch (request.input_case()) {
    case wire::GenerateRequest::kTokenized:
      RETURN_IF_ERROR(
          AppendTokens("tokenized.input_ids", request.tokenized().input_ids(), to->mutable_ids()));
      break;
    case wire::GenerateRequest::kText: {
      RETURN_IF_ERROR(CheckTextSize("text", request.text().size(), model));
      const std::vector<int32_t> ids = model.tokenizer.Encode(request.text(), {});
      to->mutable_ids()->Assign(ids.begin(), ids.end());
      break;
    }
    case wire::GenerateRequest::INPUT_NOT_SET:
      return absl::InvalidArgumentError("one of tokenized and text is needed");
  }
  const wire::SamplingParams& sampling = request.sampling_params();
  if (!sampling.has_truncate_prompt_tokens()) return absl::OkStatus();
  const int32_t asked = sampling.truncate_prompt_tokens();
  if (asked == 0 || asked < -1)
    return Refuse("sampling_params.truncate_prompt_tokens", "is ", asked,
                  "; it must be positive, or -1 for what fits");
  const int32_t most = asked > 0 ? asked : model.info.max_context - 1;
  if (to->ids_size() > most)
    to->mutable_ids()->erase(to->mutable_ids()->begin(), to->mutable_ids()->end() - most);
  return absl::OkStatus();
}

// Numbers whose zero means a default.
void ReadSampling(const wire::SamplingParams& from, v1::Sampling* to) {
  if (from.has_temperature()) to->set_temperature(from.temperature());
  if (from.top_p() != 0) to->set_top_p(from.top_p());
  to->set_top_k(from.top_k());
  to->set_min_p(from.min_p());
  to->set_frequency_penalty(from.frequency_penalty());
  to->set_presence_penalty(from.presence_penalty());
  if (from.repetition_penalty() != 0) to->set_repetition_penalty(from.repetition_penalty());
  if (from.has_seed()) to->set_seed(static_cast<uint64_t>(int64_t{from.seed()}));
  *to->mutable_logit_bias() = from.logit_bias();
}

absl::Status ReadStopping(const wire::SamplingParams& from, v1::Stopping* to) {
  if (from.has_max_tokens()) to->set_max_tokens(from.max_tokens());
  to->set_min_tokens(from.min_tokens());
  *to->mutable_stop() = from.stop();
  RETURN_IF_ERROR(AppendTokens("sampling_params.stop_token_ids", from.stop_token_ids(),
                               to->mutable_stop_token_ids()));
  to->set_ignore_eos(from.ignore_eos());
  to->set_include_stop_in_output(from.include_stop_str_in_output());
  return absl::OkStatus();
}

absl::Status ReadOutput(const wire::SamplingParams& from, v1::Output* to) {
  if (from.has_logprobs()) {
    if (from.logprobs() < 0)
      return Refuse("sampling_params.logprobs", "is ", from.logprobs(),
                    "; the log-probabilities of the whole vocabulary are not told");
    to->set_logprobs(static_cast<uint32_t>(from.logprobs()));
  }
  to->set_skip_special_tokens(from.skip_special_tokens());
  to->set_token_ids_only(from.stop_size() == 0);  // text is needed only to find a stop in it
  return absl::OkStatus();
}

class Generate final : public GenerateMethod {
 public:
  explicit Generate(AbortRegistry& registry) : registry_(registry) {}

  absl::string_view name() const override { return "vllm.Generate"; }
  void SetCancel(std::function<void()> cancel) override { cancel_ = std::move(cancel); }

  absl::StatusOr<std::vector<v1::GenerateRequest>> Parse(const grpc::ByteBuffer& bytes,
                                                         const ServedModel& model) override {
    ASSIGN_OR_RETURN(
        const wire::GenerateRequest request,
        ParseMessage<wire::GenerateRequest>(bytes, "request_id, text, sampling_params.stop"));
    if (!request.request_id().empty()) entry_ = registry_.Add(request.request_id(), cancel_);
    RETURN_IF_ERROR(CheckSupported(request));
    const wire::SamplingParams& sampling = request.sampling_params();
    std::vector<v1::GenerateRequest> requests(1);
    v1::GenerateRequest& to = requests[0];
    RETURN_IF_ERROR(ReadPrompt(request, model, to.mutable_tokens()));
    ReadSampling(sampling, to.mutable_sampling());
    RETURN_IF_ERROR(ReadStopping(sampling, to.mutable_stopping()));
    RETURN_IF_ERROR(ReadOutput(sampling, to.mutable_output()));
    to.set_n(std::max(1u, sampling.n()));
    prompt_field_ = request.has_text() ? "text" : "tokenized.input_ids";
    stream_ = request.stream();
    tops_ = sampling.logprobs() > 0;
    prompt_tokens_ = static_cast<uint32_t>(to.tokens().ids_size());
    stop_tokens_.assign(sampling.stop_token_ids().begin(), sampling.stop_token_ids().end());
    return requests;
  }

  absl::Status Explain(absl::Status status) const override {
    return RenameField(status, {{"prompt", prompt_field_},
                                {"sampling.", "sampling_params."},
                                {"stopping.", "sampling_params."},
                                {"output.", "sampling_params."}});
  }

  void Respond(size_t /*prompt*/, v1::GenerateResponse news,
               std::vector<grpc::ByteBuffer>* out) override {
    const bool last = news.finish_reason() != v1::FINISH_REASON_UNSPECIFIED;
    if (stream_) {
      if (news.token_ids_size() > 0) out->push_back(Chunk(news));
      if (last) out->push_back(Complete(news));
      return;
    }
    v1::GenerateResponse& all = gathered_[news.index()];
    all.MergeFrom(news);
    if (last) {
      out->push_back(Complete(all));
      gathered_.erase(news.index());
    }
  }

 private:
  grpc::ByteBuffer Chunk(const v1::GenerateResponse& news) const {
    wire::GenerateResponse response;
    wire::GenerateStreamChunk& chunk = *response.mutable_chunk();
    chunk.mutable_token_ids()->Assign(news.token_ids().begin(), news.token_ids().end());
    chunk.set_prompt_tokens(prompt_tokens_);
    chunk.set_completion_tokens(static_cast<uint32_t>(news.token_ids_size()));
    if (news.infos_size() > 0) Describe(news, chunk.mutable_output_logprobs());
    chunk.set_index(news.index());
    return SerializeMessage(response);
  }

  grpc::ByteBuffer Complete(const v1::GenerateResponse& news) const {
    wire::GenerateResponse response;
    wire::GenerateComplete& complete = *response.mutable_complete();
    complete.mutable_output_ids()->Assign(news.token_ids().begin(), news.token_ids().end());
    complete.set_finish_reason(news.finish_reason() == v1::FINISH_REASON_LENGTH ? "length"
                                                                                : "stop");
    complete.set_prompt_tokens(prompt_tokens_);
    complete.set_completion_tokens(static_cast<uint32_t>(news.token_ids_size()));
    complete.set_cached_tokens(news.usage().cached_prompt_tokens());
    if (news.infos_size() > 0) Describe(news, complete.mutable_output_logprobs());
    complete.set_index(news.index());
    if (news.finish_reason() != v1::FINISH_REASON_STOP) return SerializeMessage(response);
    const int32_t token = news.token_ids_size() > 0 ? *news.token_ids().rbegin() : -1;
    if (!news.stop_match().empty())
      complete.set_matched_stop_str(news.stop_match());
    else if (std::count(stop_tokens_.begin(), stop_tokens_.end(), static_cast<uint32_t>(token)) > 0)
      complete.set_matched_token_id(static_cast<uint32_t>(token));
    return SerializeMessage(response);
  }

  void Describe(const v1::GenerateResponse& news, wire::OutputLogProbs* to) const {
    for (int i = 0; i < news.infos_size(); ++i) {
      to->add_token_logprobs(news.infos(i).logprob());
      to->add_token_ids(static_cast<uint32_t>(news.token_ids(i)));
      if (!tops_) continue;
      wire::TopLogProbs* top = to->add_top_logprobs();
      for (const v1::TokenLogprob& token : news.infos(i).top()) {
        top->add_values(token.logprob());
        top->add_token_ids(static_cast<uint32_t>(token.token()));
      }
    }
  }

  AbortRegistry& registry_;
  std::function<void()> cancel_;
  std::unique_ptr<AbortRegistry::Entry> entry_;
  const char* prompt_field_ = "";
  bool stream_ = false, tops_ = false;
  uint32_t prompt_tokens_ = 0;
  std::vector<uint32_t> stop_tokens_;                  // of the request
  std::map<uint32_t, v1::GenerateResponse> gathered_;  // by sample, unless streaming
};

class Embed final : public EncodeMethod {
 public:
  absl::string_view name() const override { return "vllm.Embed"; }
  absl::StatusOr<EncodeTask> Parse(const grpc::ByteBuffer& bytes,
                                   const ServedModel& model) override {
    ASSIGN_OR_RETURN(const wire::EmbedRequest request,
                     ParseMessage<wire::EmbedRequest>(bytes, "request_id"));
    v1::Input input;
    RETURN_IF_ERROR(AppendTokens("tokenized.input_ids", request.tokenized().input_ids(),
                                 input.mutable_tokens()->mutable_ids()));
    EncodeTask task;
    EncodeInputs inputs(model, /*truncate=*/false, &task);
    RETURN_IF_ERROR(inputs.AddInput("tokenized.input_ids", input));
    RETURN_IF_ERROR(ApplyScheduling({}, model, &task));
    return task;
  }
  grpc::ByteBuffer Respond(std::vector<EncodeOutput> outputs, const v1::EncodeTimings& /*timings*/,
                           const ServedModel& /*model*/) const override {
    wire::EmbedResponse response;
    const std::vector<float>& values = outputs[0].values;
    response.mutable_embedding()->Assign(values.begin(), values.end());
    response.set_prompt_tokens(outputs[0].tokens);
    response.set_embedding_dim(static_cast<uint32_t>(values.size()));
    return SerializeMessage(response);
  }
};

}  // namespace

std::unique_ptr<GenerateMethod> MakeGenerate(AbortRegistry& registry) {
  return std::make_unique<Generate>(registry);
}
std::unique_ptr<EncodeMethod> MakeEmbed() { return std::make_unique<Embed>(); }

}  // namespace penstock::vllm
