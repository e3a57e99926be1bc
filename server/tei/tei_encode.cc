#include "server/tei/tei_encode.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "proto/tei/v1/tei.pb.h"
#include "server/encode_inputs.h"
#include "server/encode_results.h"
#include "server/field_checks.h"
#include "server/raw_message.h"
#include "shard/base/status_macros.h"

namespace penstock::tei {
namespace {

namespace wire = ::tei::v1;

// Characters of UTF-8.
uint32_t CountCharacters(const std::string& text) {
  return static_cast<uint32_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// What the methods have in common: the inputs' size and the time to read them.
class TeiMethod : public EncodeMethod {
 public:
  absl::StatusOr<EncodeTask> Parse(const grpc::ByteBuffer& bytes, const ServedModel& model) final {
    const absl::Time begin = absl::Now();
    ASSIGN_OR_RETURN(EncodeTask task, Read(bytes, model));
    RETURN_IF_ERROR(ApplyScheduling({}, model, &task));
    reading_ = absl::Now() - begin;
    return task;
  }

 protected:
  virtual absl::StatusOr<EncodeTask> Read(const grpc::ByteBuffer& bytes,
                                          const ServedModel& model) = 0;

  // One text, as `inputs`.
  absl::StatusOr<EncodeTask> ReadOne(const std::string& text, bool truncate,
                                     const ServedModel& model) {
    EncodeTask task;
    EncodeInputs inputs(model, truncate, &task);
    RETURN_IF_ERROR(inputs.AddText("inputs", text, std::nullopt));
    characters_ = CountCharacters(text);
    return task;
  }
  wire::Metadata Describe(const std::vector<EncodeOutput>& outputs,
                          const v1::EncodeTimings& timings) const {
    uint32_t tokens = 0;
    for (const EncodeOutput& output : outputs) tokens += output.tokens;
    const auto nanoseconds = [](double seconds) {
      return static_cast<uint64_t>(std::max(0.0, seconds) * 1e9);
    };
    wire::Metadata metadata;
    metadata.set_compute_chars(characters_);
    metadata.set_compute_tokens(tokens);
    metadata.set_total_time_ns(nanoseconds(timings.total_seconds()));
    metadata.set_tokenization_time_ns(nanoseconds(absl::ToDoubleSeconds(reading_)));
    metadata.set_queue_time_ns(
        nanoseconds(timings.queue_seconds() - absl::ToDoubleSeconds(reading_)));
    metadata.set_inference_time_ns(nanoseconds(timings.compute_seconds()));
    return metadata;
  }

  uint32_t characters_ = 0;

 private:
  absl::Duration reading_;
};

// Indices of `scores`, the highest first; of equals the first.
std::vector<uint32_t> Order(const std::vector<float>& scores) {
  std::vector<uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&scores](uint32_t a, uint32_t b) { return scores[a] > scores[b]; });
  return order;
}

class Embed final : public TeiMethod {
 public:
  absl::string_view name() const override { return "tei.Embed"; }
  absl::StatusOr<EncodeTask> Read(const grpc::ByteBuffer& bytes,
                                  const ServedModel& model) override {
    ASSIGN_OR_RETURN(const wire::EmbedRequest request,
                     ParseMessage<wire::EmbedRequest>(bytes, "inputs"));
    RETURN_IF_ERROR(CheckKind(model, name(), "embed"));
    normalize_ = request.normalize();
    return ReadOne(request.inputs(), request.truncate(), model);
  }
  grpc::ByteBuffer Respond(std::vector<EncodeOutput> outputs, const v1::EncodeTimings& timings,
                           const ServedModel& /*model*/) const override {
    wire::EmbedResponse response;
    *response.mutable_metadata() = Describe(outputs, timings);
    std::vector<float>& values = outputs[0].values;
    if (normalize_) Normalize(&values);
    response.mutable_embeddings()->Assign(values.begin(), values.end());
    return SerializeMessage(response);
  }

 private:
  bool normalize_ = false;
};

class Predict final : public TeiMethod {
 public:
  absl::string_view name() const override { return "tei.Predict"; }
  absl::StatusOr<EncodeTask> Read(const grpc::ByteBuffer& bytes,
                                  const ServedModel& model) override {
    ASSIGN_OR_RETURN(const wire::PredictRequest request,
                     ParseMessage<wire::PredictRequest>(bytes, "inputs"));
    RETURN_IF_ERROR(CheckKind(model, name(), "classify"));
    raw_ = request.raw_scores();
    return ReadOne(request.inputs(), request.truncate(), model);
  }
  grpc::ByteBuffer Respond(std::vector<EncodeOutput> outputs, const v1::EncodeTimings& timings,
                           const ServedModel& model) const override {
    wire::PredictResponse response;
    *response.mutable_metadata() = Describe(outputs, timings);
    std::vector<float>& scores = outputs[0].values;
    if (!raw_) MakeProbabilities(*model.encoder, &scores);
    for (uint32_t index : Order(scores)) {
      wire::Prediction* prediction = response.add_predictions();
      prediction->set_score(scores[index]);
      prediction->set_label(model.encoder->labels[index]);
    }
    return SerializeMessage(response);
  }

 private:
  bool raw_ = false;
};

class Rerank final : public TeiMethod {
 public:
  absl::string_view name() const override { return "tei.Rerank"; }
  absl::StatusOr<EncodeTask> Read(const grpc::ByteBuffer& bytes,
                                  const ServedModel& model) override {
    ASSIGN_OR_RETURN(request_, ParseMessage<wire::RerankRequest>(bytes, "query, texts"));
    RETURN_IF_ERROR(CheckKind(model, name(), "classify"));
    if (model.encoder->labels.size() != 1)
      return absl::FailedPreconditionError(
          absl::StrCat("tei.Rerank needs a classifier with one label; \"", model.name, "\" has ",
                       model.encoder->labels.size(), " (tei.Predict tells the score of each)"));
    EncodeTask task;
    EncodeInputs inputs(model, request_.truncate(), &task);
    RETURN_IF_ERROR(inputs.CheckCount("texts", request_.texts_size()));
    if (request_.query().empty()) return Refuse("query", "is empty");
    for (int i = 0; i < request_.texts_size(); ++i) {
      const std::string field = absl::StrCat("texts[", i, "]");
      if (request_.texts(i).empty()) return Refuse(field, "is empty");
      RETURN_IF_ERROR(inputs.AddText(field, request_.query(), request_.texts(i)));
      characters_ += CountCharacters(request_.query()) + CountCharacters(request_.texts(i));
    }
    return task;
  }
  grpc::ByteBuffer Respond(std::vector<EncodeOutput> outputs, const v1::EncodeTimings& timings,
                           const ServedModel& /*model*/) const override {
    wire::RerankResponse response;
    *response.mutable_metadata() = Describe(outputs, timings);
    std::vector<float> scores;
    for (const EncodeOutput& output : outputs)
      scores.push_back(request_.raw_scores() ? output.values[0] : Sigmoid(output.values[0]));
    for (uint32_t index : Order(scores)) {
      wire::Rank* rank = response.add_ranks();
      rank->set_index(index);
      rank->set_score(scores[index]);
      if (request_.return_text()) rank->set_text(request_.texts(static_cast<int>(index)));
    }
    return SerializeMessage(response);
  }

 private:
  wire::RerankRequest request_;
};

}  // namespace

std::unique_ptr<EncodeMethod> MakeEmbed() { return std::make_unique<Embed>(); }
std::unique_ptr<EncodeMethod> MakePredict() { return std::make_unique<Predict>(); }
std::unique_ptr<EncodeMethod> MakeRerank() { return std::make_unique<Rerank>(); }

}  // namespace penstock::tei
