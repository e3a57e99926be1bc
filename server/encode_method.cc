#include "server/encode_method.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/encode_inputs.h"
#include "server/encode_results.h"
#include "server/field_checks.h"
#include "server/raw_message.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

// Of EmbedRequest and ClassifyRequest, which have the same inputs.
template <typename Request>
absl::StatusOr<EncodeTask> ParseInputs(const Request& request, const ServedModel& model) {
  RETURN_IF_ERROR(CheckModelName(request.model(), model));
  EncodeTask task;
  EncodeInputs inputs(model, request.truncate(), &task);
  RETURN_IF_ERROR(inputs.CheckCount("inputs", request.inputs_size()));
  for (int i = 0; i < request.inputs_size(); ++i)
    RETURN_IF_ERROR(inputs.AddInput(absl::StrCat("inputs[", i, "]"), request.inputs(i)));
  RETURN_IF_ERROR(ApplyScheduling(request.scheduling(), model, &task));
  return task;
}

class EmbedMethod final : public EncodeMethod {
 public:
  absl::string_view name() const override { return "Embed"; }
  absl::StatusOr<EncodeTask> Parse(const grpc::ByteBuffer& bytes,
                                   const ServedModel& model) override {
    ASSIGN_OR_RETURN(const v1::EmbedRequest request,
                     ParseMessage<v1::EmbedRequest>(bytes, "model, inputs.text, inputs.pair"));
    RETURN_IF_ERROR(CheckKind(model, name(), "embed"));
    return ParseInputs(request, model);
  }
  grpc::ByteBuffer Respond(std::vector<EncodeOutput> outputs, const v1::EncodeTimings& timings,
                           const ServedModel& /*model*/) const override {
    v1::EmbedResponse response;
    for (const EncodeOutput& output : outputs) {
      v1::Embedding* embedding = response.add_embeddings();
      embedding->mutable_values()->Assign(output.values.begin(), output.values.end());
      embedding->set_tokens(output.tokens);
      embedding->set_truncated(output.truncated);
    }
    *response.mutable_timings() = timings;
    return SerializeMessage(response);
  }
};

class ClassifyMethod final : public EncodeMethod {
 public:
  absl::string_view name() const override { return "Classify"; }
  absl::StatusOr<EncodeTask> Parse(const grpc::ByteBuffer& bytes,
                                   const ServedModel& model) override {
    ASSIGN_OR_RETURN(const v1::ClassifyRequest request,
                     ParseMessage<v1::ClassifyRequest>(bytes, "model, inputs.text, inputs.pair"));
    RETURN_IF_ERROR(CheckKind(model, name(), "classify"));
    raw_ = request.raw_scores();
    return ParseInputs(request, model);
  }
  grpc::ByteBuffer Respond(std::vector<EncodeOutput> outputs, const v1::EncodeTimings& timings,
                           const ServedModel& model) const override {
    v1::ClassifyResponse response;
    for (EncodeOutput& output : outputs) {
      if (!raw_) MakeProbabilities(*model.encoder, &output.values);
      v1::Classification* result = response.add_results();
      for (size_t i = 0; i < output.values.size(); ++i) {
        v1::LabelScore* score = result->add_scores();
        score->set_label(model.encoder->labels[i]);
        score->set_score(output.values[i]);
      }
      result->set_tokens(output.tokens);
      result->set_truncated(output.truncated);
    }
    *response.mutable_timings() = timings;
    return SerializeMessage(response);
  }

 private:
  bool raw_ = false;
};

class ScoreMethod final : public EncodeMethod {
 public:
  absl::string_view name() const override { return "Score"; }
  absl::StatusOr<EncodeTask> Parse(const grpc::ByteBuffer& bytes,
                                   const ServedModel& model) override {
    ASSIGN_OR_RETURN(const v1::ScoreRequest request,
                     ParseMessage<v1::ScoreRequest>(bytes, "model, query, documents"));
    RETURN_IF_ERROR(CheckModelName(request.model(), model));
    RETURN_IF_ERROR(CheckKind(model, name(), "classify"));
    if (model.encoder->labels.size() != 1)
      return absl::FailedPreconditionError(
          absl::StrCat("Score needs a classifier with one label; \"", model.name, "\" has ",
                       model.encoder->labels.size(), " (Classify tells the score of each)"));
    if (request.has_top_n() && request.top_n() == 0) return Refuse("top_n", "is 0");
    raw_ = request.raw_scores();
    if (request.has_top_n()) top_n_ = request.top_n();
    return ParseDocuments(request, model);
  }
  grpc::ByteBuffer Respond(std::vector<EncodeOutput> outputs, const v1::EncodeTimings& timings,
                           const ServedModel& /*model*/) const override {
    std::vector<uint32_t> order(outputs.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&outputs](uint32_t a, uint32_t b) {
      return outputs[a].values[0] > outputs[b].values[0];
    });
    order.resize(std::min<size_t>(order.size(), top_n_));
    v1::ScoreResponse response;
    for (uint32_t index : order) {
      const EncodeOutput& output = outputs[index];
      v1::ScoredDocument* document = response.add_results();
      document->set_index(index);
      document->set_score(raw_ ? output.values[0] : Sigmoid(output.values[0]));
      document->set_tokens(output.tokens);
      document->set_truncated(output.truncated);
    }
    *response.mutable_timings() = timings;
    return SerializeMessage(response);
  }

 private:
  static absl::StatusOr<EncodeTask> ParseDocuments(const v1::ScoreRequest& request,
                                                   const ServedModel& model) {
    EncodeTask task;
    EncodeInputs inputs(model, request.truncate(), &task);
    RETURN_IF_ERROR(inputs.CheckCount("documents", request.documents_size()));
    if (request.query().empty()) return Refuse("query", "is empty");
    for (int i = 0; i < request.documents_size(); ++i) {
      const std::string field = absl::StrCat("documents[", i, "]");
      if (request.documents(i).empty()) return Refuse(field, "is empty");
      RETURN_IF_ERROR(inputs.AddText(field, request.query(), request.documents(i)));
    }
    RETURN_IF_ERROR(ApplyScheduling(request.scheduling(), model, &task));
    return task;
  }

  bool raw_ = false;
  uint32_t top_n_ = ~uint32_t{0};
};

}  // namespace

std::unique_ptr<EncodeMethod> MakeEmbedMethod() { return std::make_unique<EmbedMethod>(); }
std::unique_ptr<EncodeMethod> MakeClassifyMethod() { return std::make_unique<ClassifyMethod>(); }
std::unique_ptr<EncodeMethod> MakeScoreMethod() { return std::make_unique<ScoreMethod>(); }

}  // namespace penstock
