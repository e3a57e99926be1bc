#include "server/kserve/infer_generate.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "server/field_checks.h"
#include "server/kserve/infer_parameters.h"
#include "server/kserve/infer_request.h"
#include "server/kserve/infer_tensor.h"
#include "server/raw_message.h"
#include "shard/base/status_macros.h"

namespace penstock::kserve {
namespace {

constexpr absl::string_view kText = "text_output";
constexpr absl::string_view kIds = "output_ids";
constexpr absl::string_view kReason = "finish_reason";
constexpr absl::string_view kCumulative = "cumulative_logprob";
constexpr absl::string_view kLogprobs = "logprobs";
constexpr absl::string_view kInputTokens = "num_input_tokens";
constexpr absl::string_view kOutputTokens = "num_output_tokens";

absl::string_view ReasonName(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP: return "stop";
    case v1::FINISH_REASON_LENGTH: return "length";
    default: return "";
  }
}

// What has come of a sample since the last response.
struct Progress {
  std::string text;
  std::vector<int32_t> tokens;
  double logprob = 0;
  nlohmann::json logprobs = nlohmann::json::array();
  v1::FinishReason reason = v1::FINISH_REASON_UNSPECIFIED;
};

// As vLLM's backend tells of a token: the likeliest ones by id, and itself if it is not among them.
nlohmann::json DescribeToken(int32_t token, const v1::TokenInfo& info) {
  nlohmann::json described = nlohmann::json::object();
  int rank = 0;
  for (const v1::TokenLogprob& top : info.top()) {
    nlohmann::json& entry = described[absl::StrCat(top.token())];
    entry["logprob"] = top.logprob();
    entry["rank"] = ++rank;
    entry["decoded_token"] = top.text();
  }
  nlohmann::json& chosen = described[absl::StrCat(token)];
  if (chosen.is_null()) chosen = {{"logprob", info.logprob()}};
  return described;
}

// A tensor of one element, or one of one row with one element.
bool IsSingle(const InferTensor& tensor) { return tensor.size() == 1; }

absl::Status ReadPrompt(const std::map<std::string, InferTensor, std::less<>>& tensors,
                        v1::GenerateRequest* to) {
  const auto text = tensors.find("text_input");
  const auto ids = tensors.find("input_ids");
  if ((text == tensors.end()) == (ids == tensors.end()))
    return absl::InvalidArgumentError("one of the inputs text_input and input_ids is needed");
  if (text != tensors.end()) {
    if (text->second.strings() == nullptr || !IsSingle(text->second))
      return Refuse("text_input", "must be one string (BYTES of shape [1] or [1, 1])");
    RETURN_IF_ERROR(CheckUtf8("text_input", (*text->second.strings())[0]));
    to->set_text((*text->second.strings())[0]);
    return absl::OkStatus();
  }
  const auto& shape = ids->second.shape;
  const bool one_row = shape.size() == 1 || (shape.size() == 2 && shape[0] == 1);
  if (ids->second.integers() == nullptr || !one_row)
    return Refuse("input_ids", "must be integers of shape [n] or [1, n]");
  return AppendTokens("input_ids", *ids->second.integers(), to->mutable_tokens()->mutable_ids());
}

class InferGenerate final : public GenerateMethod {
 public:
  InferGenerate(InferStatistics& statistics, bool in_stream)
      : inference_(statistics), in_stream_(in_stream) {}

  absl::string_view name() const override {
    return in_stream_ ? "kserve.ModelStreamInfer" : "kserve.ModelInfer";
  }

  absl::StatusOr<std::vector<v1::GenerateRequest>> Parse(const grpc::ByteBuffer& bytes,
                                                         const ServedModel& model) override {
    model_ = &model;
    ASSIGN_OR_RETURN(const inference::ModelInferRequest request, ParseInferRequest(bytes));
    RETURN_IF_ERROR(CheckModel(request.model_name(), request.model_version(), model));
    id_ = request.id();
    std::vector<v1::GenerateRequest> requests(1);
    v1::GenerateRequest& to = requests[0];
    ASSIGN_OR_RETURN(const auto tensors, ReadInputs(request));
    RETURN_IF_ERROR(ReadPrompt(tensors, &to));
    RETURN_IF_ERROR(ReadParameters(request, tensors, &to, &options_));
    RETURN_IF_ERROR(ReadProtocolParameters(request, to.mutable_scheduling()));
    ASSIGN_OR_RETURN(wanted_,
                     WantedOutputs::Read(request, {kText, kIds, kReason, kCumulative, kLogprobs,
                                                   kInputTokens, kOutputTokens}));
    RETURN_IF_ERROR(SettleOptions(&to));
    return requests;
  }

  absl::Status Explain(absl::Status status) const override {
    return RenameField(
        status, {{"sampling.", ""}, {"stopping.", ""}, {"output.", ""}, {"scheduling.", ""}});
  }

  void Respond(size_t /*prompt*/, v1::GenerateResponse news,
               std::vector<grpc::ByteBuffer>* out) override {
    Progress& progress = progress_[news.index()];
    progress.text += news.text();
    progress.tokens.insert(progress.tokens.end(), news.token_ids().begin(), news.token_ids().end());
    for (int i = 0; i < news.infos_size(); ++i) {
      progress.logprob += news.infos(i).logprob();
      if (gives_logprobs_)
        progress.logprobs.push_back(DescribeToken(news.token_ids(i), news.infos(i)));
    }
    progress.reason = news.finish_reason();
    if (news.finish_reason() != v1::FINISH_REASON_UNSPECIFIED) End(news);
    if (!options_.stream) return;
    out->push_back(StreamMessage(MakeResponse(), ended_ == progress_.size()));
    for (Progress& told : progress_) told = Progress();
  }

  void Finish(std::vector<grpc::ByteBuffer>* out) override {
    if (!options_.stream)
      out->push_back(in_stream_ ? StreamMessage(MakeResponse(), /*final=*/true)
                                : SerializeMessage(MakeResponse()));
  }

 private:
  // What depends on several fields.
  absl::Status SettleOptions(v1::GenerateRequest* to) {
    if (options_.stream && !in_stream_)
      return absl::InvalidArgumentError("stream needs ModelStreamInfer; this is ModelInfer");
    if (options_.stream && options_.exclude_input && !*options_.exclude_input)
      return absl::InvalidArgumentError("exclude_input_in_output cannot be false when streaming");
    progress_.resize(to->has_n() ? std::clamp(to->n(), 1u, 1024u) : 1);
    const bool ids = to->has_tokens();
    gives_ids_ = wanted_.Has(kIds, ids && progress_.size() == 1);
    if (gives_ids_ && progress_.size() != 1) return Refuse(kIds, "needs n = 1");
    gives_logprobs_ = wanted_.Has(kLogprobs, options_.logprobs);
    gives_cumulative_ = wanted_.Has(kCumulative, options_.cumulative_logprob);
    if ((gives_cumulative_ || gives_logprobs_) && !to->output().has_logprobs())
      to->mutable_output()->set_logprobs(0);
    if (!options_.stream && !options_.exclude_input.value_or(false) && !ids)
      for (Progress& progress : progress_) progress.text = to->text();
    return absl::OkStatus();
  }

  void End(const v1::GenerateResponse& last) {
    input_tokens_ = last.usage().prompt_tokens();
    if (++ended_ == progress_.size())
      inference_.Succeed(1, absl::Seconds(last.timings().queue_seconds()));
  }

  // A vector of something of each sample.
  template <typename Get>
  auto Each(Get get) const {
    std::vector<decltype(get(progress_[0]))> values;
    for (const Progress& progress : progress_) values.push_back(get(progress));
    return values;
  }

  inference::ModelInferResponse MakeResponse() const {
    inference::ModelInferResponse response = ResponseTo(id_, *model_);
    const auto n = static_cast<int64_t>(progress_.size());
    if (wanted_.Has(kText, true))
      AddStrings(kText, {n}, Each([](const Progress& p) { return p.text; }), &response);
    if (gives_ids_) {
      const std::vector<int32_t>& tokens = progress_[0].tokens;
      AddIntegers(kIds, "INT32", {1, static_cast<int64_t>(tokens.size())}, tokens, &response);
    }
    if (wanted_.Has(kReason, options_.finish_reason))
      AddStrings(kReason, {n},
                 Each([](const Progress& p) { return std::string(ReasonName(p.reason)); }),
                 &response);
    if (gives_cumulative_)
      AddFloats(kCumulative, {n},
                Each([](const Progress& p) { return static_cast<float>(p.logprob); }), &response);
    if (gives_logprobs_)
      AddStrings(kLogprobs, {n}, Each([](const Progress& p) { return Dump(p.logprobs); }),
                 &response);
    if (wanted_.Has(kInputTokens, options_.input_tokens) && ended_ == progress_.size())
      AddIntegers(kInputTokens, "UINT32", {1}, {static_cast<int32_t>(input_tokens_)}, &response);
    if (wanted_.Has(kOutputTokens, options_.output_tokens))
      AddIntegers(kOutputTokens, "UINT32", {n},
                  Each([](const Progress& p) { return static_cast<int32_t>(p.tokens.size()); }),
                  &response);
    return response;
  }

  // A token's bytes may be part of a character.
  static std::string Dump(const nlohmann::json& json) {
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }

  CountedInference inference_;
  const bool in_stream_;
  const ServedModel* model_ = nullptr;
  std::string id_;
  AnswerOptions options_;
  WantedOutputs wanted_;
  bool gives_ids_ = false, gives_logprobs_ = false, gives_cumulative_ = false;
  std::vector<Progress> progress_;  // by sample
  size_t ended_ = 0;                // samples
  uint32_t input_tokens_ = 0;       // known when a sample ends
};

}  // namespace

std::unique_ptr<GenerateMethod> MakeInferGenerate(InferStatistics& statistics) {
  return std::make_unique<InferGenerate>(statistics, /*in_stream=*/false);
}

std::unique_ptr<GenerateMethod> MakeStreamGenerate(InferStatistics& statistics) {
  return std::make_unique<InferGenerate>(statistics, /*in_stream=*/true);
}

}  // namespace penstock::kserve
