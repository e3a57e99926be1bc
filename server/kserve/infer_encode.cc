#include "server/kserve/infer_encode.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/encode_inputs.h"
#include "server/encode_results.h"
#include "server/field_checks.h"
#include "server/kserve/infer_parameters.h"
#include "server/kserve/infer_request.h"
#include "server/kserve/infer_tensor.h"
#include "server/raw_message.h"
#include "shard/base/status_macros.h"

namespace penstock::kserve {
namespace {

using Tensors = std::map<std::string, InferTensor, std::less<>>;

constexpr absl::string_view kEmbedding = "embedding";
constexpr absl::string_view kScores = "scores";

// Of shape [b] or [b, 1].
absl::StatusOr<const std::vector<std::string>*> Column(absl::string_view name,
                                                       const InferTensor& tensor) {
  const auto& shape = tensor.shape;
  const bool column = shape.size() == 1 || (shape.size() == 2 && shape[1] == 1);
  if (tensor.strings() == nullptr || !column)
    return Refuse(name, "must be strings (BYTES of shape [b] or [b, 1])");
  for (const std::string& text : *tensor.strings()) RETURN_IF_ERROR(CheckUtf8(name, text));
  return tensor.strings();
}

// Of shape [b, s]; null when it is not there.
absl::StatusOr<const std::vector<int64_t>*> Matrix(absl::string_view name, const Tensors& tensors,
                                                   const std::vector<int64_t>& shape) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) return nullptr;
  if (found->second.integers() == nullptr || found->second.shape != shape)
    return Refuse(name, "must be integers of the shape of input_ids");
  return found->second.integers();
}

absl::Status CheckKnown(const Tensors& tensors) {
  static constexpr absl::string_view kKnown[] = {"text",      "text_input",     "pair",
                                                 "input_ids", "attention_mask", "token_type_ids"};
  for (const auto& [name, tensor] : tensors)
    if (std::find(std::begin(kKnown), std::end(kKnown), name) == std::end(kKnown))
      return absl::InvalidArgumentError(absl::StrCat("\"", name, "\" is no input of this model"));
  return absl::OkStatus();
}

absl::Status AddTexts(const std::string& name, const Tensors& tensors, EncodeInputs* inputs) {
  ASSIGN_OR_RETURN(const std::vector<std::string>* texts, Column(name, tensors.find(name)->second));
  const std::vector<std::string>* pairs = nullptr;
  if (const auto pair = tensors.find("pair"); pair != tensors.end()) {
    ASSIGN_OR_RETURN(pairs, Column("pair", pair->second));
    if (pairs->size() != texts->size())
      return Refuse("pair", "has ", pairs->size(), " strings beside ", texts->size());
  }
  RETURN_IF_ERROR(inputs->CheckCount(name, static_cast<int>(texts->size())));
  for (size_t i = 0; i < texts->size(); ++i)
    RETURN_IF_ERROR(inputs->AddText(
        absl::StrCat(name, "[", i, "]"), (*texts)[i],
        pairs != nullptr ? std::optional<absl::string_view>((*pairs)[i]) : std::nullopt));
  return absl::OkStatus();
}

// Rows of ids; what the mask says is padding, at the end of a row, is left out.
absl::Status AddIds(const Tensors& tensors, EncodeInputs* inputs) {
  const InferTensor& ids = tensors.find("input_ids")->second;
  if (ids.integers() == nullptr || ids.shape.size() != 2)
    return Refuse("input_ids", "must be integers of shape [b, s]");
  ASSIGN_OR_RETURN(const auto* mask, Matrix("attention_mask", tensors, ids.shape));
  ASSIGN_OR_RETURN(const auto* types, Matrix("token_type_ids", tensors, ids.shape));
  if (types != nullptr && std::any_of(types->begin(), types->end(), [](auto t) { return t != 0; }))
    return absl::UnimplementedError("token_type_ids other than 0 come with texts only (pair)");
  const int64_t rows = ids.shape[0], width = ids.shape[1];
  RETURN_IF_ERROR(
      inputs->CheckCount("input_ids", static_cast<int>(std::min<int64_t>(rows, INT32_MAX))));
  for (int64_t row = 0; row < rows; ++row) {
    const std::string name = absl::StrCat("input_ids[", row, "]");
    v1::Input input;
    for (int64_t i = row * width; i < (row + 1) * width; ++i) {
      const bool padding = mask != nullptr && (*mask)[i] == 0;
      const int64_t id = (*ids.integers())[i];
      if (padding) continue;
      if (mask != nullptr && i > row * width && (*mask)[i - 1] == 0)
        return Refuse("attention_mask", "has tokens behind padding");
      if (id < 0 || id > INT32_MAX) return Refuse(name, "has ", id, ", which is no token id");
      input.mutable_tokens()->add_ids(static_cast<int32_t>(id));
    }
    RETURN_IF_ERROR(inputs->AddInput(name, input));
  }
  return absl::OkStatus();
}

class InferEncode final : public EncodeMethod {
 public:
  InferEncode(InferStatistics& statistics, bool in_stream)
      : inference_(std::make_unique<CountedInference>(statistics)), in_stream_(in_stream) {}

  absl::string_view name() const override {
    return in_stream_ ? "kserve.ModelStreamInfer" : "kserve.ModelInfer";
  }

  absl::StatusOr<EncodeTask> Parse(const grpc::ByteBuffer& bytes,
                                   const ServedModel& model) override {
    ASSIGN_OR_RETURN(const inference::ModelInferRequest request, ParseInferRequest(bytes));
    RETURN_IF_ERROR(CheckModel(request.model_name(), request.model_version(), model));
    id_ = request.id();
    ASSIGN_OR_RETURN(const Tensors tensors, ReadInputs(request));
    RETURN_IF_ERROR(CheckKnown(tensors));
    RETURN_IF_ERROR(ReadOutputs(request, model));
    ASSIGN_OR_RETURN(const bool truncate, BoolParameter(request, "truncate"));
    ASSIGN_OR_RETURN(normalize_, BoolParameter(request, "normalize"));
    ASSIGN_OR_RETURN(raw_scores_, BoolParameter(request, "raw_scores"));
    EncodeTask task;
    EncodeInputs inputs(model, truncate, &task);
    RETURN_IF_ERROR(AddInputs(tensors, &inputs));
    v1::Scheduling scheduling;
    RETURN_IF_ERROR(ReadProtocolParameters(request, &scheduling));
    RETURN_IF_ERROR(ApplyScheduling(scheduling, model, &task));
    return task;
  }

  grpc::ByteBuffer Respond(std::vector<EncodeOutput> outputs, const v1::EncodeTimings& timings,
                           const ServedModel& model) const override {
    const auto rows = static_cast<int64_t>(outputs.size());
    inference_->Succeed(rows, absl::Seconds(timings.queue_seconds()));
    inference::ModelInferResponse response = ResponseTo(id_, model);
    std::vector<float> all;
    for (EncodeOutput& output : outputs) {
      if (normalize_) Normalize(&output.values);
      if (model.kind() == "classify" && !raw_scores_)
        MakeProbabilities(*model.encoder, &output.values);
      all.insert(all.end(), output.values.begin(), output.values.end());
    }
    const auto width = static_cast<int64_t>(outputs[0].values.size());
    if (classes_ > 0)
      AddClasses(outputs, model, &response);
    else
      AddFloats(model.kind() == "classify" ? kScores : kEmbedding, {rows, width}, all, &response);
    if (in_stream_) return StreamMessage(std::move(response), /*final=*/true);
    return SerializeMessage(response);
  }

 private:
  absl::Status ReadOutputs(const inference::ModelInferRequest& request, const ServedModel& model) {
    const bool classify = model.kind() == "classify";
    RETURN_IF_ERROR(WantedOutputs::Read(request, {classify ? kScores : kEmbedding}).status());
    for (const auto& output : request.outputs()) {
      const auto found = output.parameters().find("classification");
      if (found == output.parameters().end()) continue;
      if (!classify) return Refuse("classification", "needs a model that classifies");
      if (found->second.int64_param() < 1) return Refuse("classification", "must be positive");
      classes_ = found->second.int64_param();
    }
    return absl::OkStatus();
  }

  static absl::Status AddInputs(const Tensors& tensors, EncodeInputs* inputs) {
    const bool text = tensors.contains("text"), text_input = tensors.contains("text_input");
    const bool ids = tensors.contains("input_ids");
    if (int{text} + int{text_input} + int{ids} != 1)
      return absl::InvalidArgumentError(
          "one of the inputs text (or text_input) and input_ids is needed");
    if (!ids) return AddTexts(text ? "text" : "text_input", tensors, inputs);
    if (tensors.contains("pair")) return Refuse("pair", "goes with text only");
    return AddIds(tensors, inputs);
  }

  // The best labels of each row, as "value:index:label".
  void AddClasses(const std::vector<EncodeOutput>& outputs, const ServedModel& model,
                  inference::ModelInferResponse* response) const {
    const auto& labels = model.encoder->labels;
    const auto k = std::min<int64_t>(classes_, static_cast<int64_t>(labels.size()));
    std::vector<std::string> classes;
    for (const EncodeOutput& output : outputs) {
      std::vector<size_t> order(output.values.size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::stable_sort(order.begin(), order.end(), [&output](size_t a, size_t b) {
        return output.values[a] > output.values[b];
      });
      for (int64_t i = 0; i < k; ++i)
        classes.push_back(
            absl::StrCat(output.values[order[i]], ":", order[i], ":", labels[order[i]]));
    }
    AddStrings(kScores, {static_cast<int64_t>(outputs.size()), k}, classes, response);
  }

  const std::unique_ptr<CountedInference> inference_;
  const bool in_stream_;
  std::string id_;
  bool normalize_ = false;
  bool raw_scores_ = false;
  int64_t classes_ = 0;  // wanted of each row, best first; 0: the scores of all
};

}  // namespace

std::unique_ptr<EncodeMethod> MakeInferEncode(InferStatistics& statistics, bool in_stream) {
  return std::make_unique<InferEncode>(statistics, in_stream);
}

}  // namespace penstock::kserve
