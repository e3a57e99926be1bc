// KServe's protocol, as spoken by Triton and its vLLM backend: texts in, texts out.

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/bench/calls.h"
#include "cli/bench/target.h"
#include "nlohmann/json.hpp"
#include "proto/kserve/inference.grpc.pb.h"

namespace penstock {
namespace {

constexpr uint32_t kMostTokens = 1 << 24;  // a larger count is nonsense

using inference::GRPCInferenceService;
using inference::ModelInferRequest;
using inference::ModelInferResponse;
using inference::ModelStreamInferResponse;

inference::InferTensorContents* AddInput(const char* name, const char* datatype,
                                         ModelInferRequest* request) {
  ModelInferRequest::InferInputTensor* input = request->add_inputs();
  input->set_name(name);
  input->set_datatype(datatype);
  input->add_shape(1);
  return input->mutable_contents();
}

// As the vLLM backend takes them, in one tensor of JSON.
std::string SamplingParameters(const PlannedRequest& planned, const Target::Options& options) {
  nlohmann::json parameters;
  parameters["max_tokens"] = planned.output_tokens;
  parameters["temperature"] = options.temperature;
  if (options.ignore_eos) {
    parameters["min_tokens"] = planned.output_tokens;
    parameters["ignore_eos"] = true;
  }
  return parameters.dump();
}

ModelInferRequest MakeRequest(const PlannedRequest& planned, const Target::Options& options) {
  ModelInferRequest request;
  request.set_model_name(options.model);
  request.set_id(absl::StrCat(planned.index));
  if (options.priority)
    (*request.mutable_parameters())["priority"].set_uint64_param(
        static_cast<uint64_t>(*options.priority));
  inference::InferTensorContents* texts = AddInput("text_input", "BYTES", &request);
  for (const PromptInput& prompt : planned.inputs) texts->add_bytes_contents(prompt.text);
  if (options.embed) {
    // One text per row.
    request.mutable_inputs(0)->set_shape(0, static_cast<int64_t>(planned.inputs.size()));
    request.mutable_inputs(0)->add_shape(1);
    return request;
  }
  AddInput("stream", "BOOL", &request)->add_bool_contents(!options.unary);
  AddInput("exclude_input_in_output", "BOOL", &request)->add_bool_contents(true);
  AddInput("sampling_parameters", "BYTES", &request)
      ->add_bytes_contents(SamplingParameters(planned, options));
  if (options.count_tokens)
    AddInput("return_num_output_tokens", "BOOL", &request)->add_bool_contents(true);
  return request;
}

// The place of an output among the response's; -1 when it is not there.
int FindOutput(const ModelInferResponse& response, const char* name) {
  for (int i = 0; i < response.outputs_size(); ++i)
    if (response.outputs(i).name() == name) return i;
  return -1;
}

// The first element of an output of 32-bit integers, which may come raw or in fields.
std::optional<uint32_t> ReadNumber(const ModelInferResponse& response, const char* name) {
  const int place = FindOutput(response, name);
  if (place < 0) return std::nullopt;
  uint32_t number = 0;
  if (place < response.raw_output_contents_size()) {
    const std::string& raw = response.raw_output_contents(place);
    if (raw.size() < sizeof(number)) return std::nullopt;
    std::memcpy(&number, raw.data(), sizeof(number));  // both are little-endian
    return number;
  }
  const inference::InferTensorContents& contents = response.outputs(place).contents();
  if (contents.uint_contents_size() > 0) return contents.uint_contents(0);
  if (contents.int_contents_size() > 0) return static_cast<uint32_t>(contents.int_contents(0));
  return std::nullopt;
}

bool HasText(const ModelInferResponse& response) {
  const int place = FindOutput(response, "text_output");
  if (place < 0) return false;
  if (place < response.raw_output_contents_size())  // the text behind its length
    return response.raw_output_contents(place).size() > sizeof(uint32_t);
  const inference::InferTensorContents& contents = response.outputs(place).contents();
  return contents.bytes_contents_size() > 0 && !contents.bytes_contents(0).empty();
}

// Tokens that a response brought: as it tells, or one if it has text.
int64_t CountTokens(const ModelInferResponse& response) {
  const std::optional<uint32_t> told = ReadNumber(response, "num_output_tokens");
  if (told) return std::min<uint32_t>(*told, kMostTokens);
  return HasText(response) ? 1 : 0;
}

// One request on a stream of its own.
class InferStream final
    : public RecordedCall,
      public grpc::ClientBidiReactor<ModelInferRequest, ModelStreamInferResponse> {
 public:
  InferStream(const PlannedRequest& planned, std::optional<absl::Duration> intended,
              const Target::Options& options, const CallContext& context,
              GRPCInferenceService::Stub& stub)
      : RecordedCall(planned, intended, options, context),
        stub_(stub),
        request_(MakeRequest(planned, options)) {}

 private:
  void Begin() override {
    // Triton then ends the stream with the error's own code instead of a message within it.
    client_.AddMetadata("triton_grpc_error", "true");
    stub_.async()->ModelStreamInfer(&client_, this);
    StartWriteLast(&request_, grpc::WriteOptions());
    StartRead(&message_);
    StartCall();
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (!message_.error_message().empty() && error_.ok())
      error_ = absl::UnknownError(message_.error_message());
    AddTokens(CountTokens(message_.infer_response()));
    answered_ = true;
    StartRead(&message_);
  }
  void OnDone(const grpc::Status& status) override {
    if (!status.ok()) {
      End(FromGrpc(status));
    } else if (error_.ok() && !answered_) {
      End(absl::DataLossError("the stream ended without a response"));
    } else {
      End(error_);
    }
  }

  GRPCInferenceService::Stub& stub_;
  const ModelInferRequest request_;
  ModelStreamInferResponse message_;
  absl::Status error_;
  bool answered_ = false;
};

class KserveTarget final : public Target {
 public:
  explicit KserveTarget(const Options& options) : options_(options), stubs_(options) {}

  std::shared_ptr<Call> Prepare(const PlannedRequest& planned,
                                std::optional<absl::Duration> intended,
                                const CallContext& context) override {
    if (!options_.embed && !options_.unary)
      return std::make_shared<InferStream>(planned, intended, options_, context, stubs_.Next());
    const auto request = std::make_shared<ModelInferRequest>(MakeRequest(planned, options_));
    const auto begin = [this, request](grpc::ClientContext* client, ModelInferResponse* response,
                                       std::function<void(grpc::Status)> done) {
      stubs_.Next().async()->ModelInfer(client, request.get(), response, std::move(done));
    };
    const auto read = [](const ModelInferResponse& response, RequestRecord*) {
      return CountTokens(response);
    };
    return std::make_shared<UnaryCall<ModelInferResponse>>(planned, intended, options_, context,
                                                           begin, read);
  }

 private:
  const Options options_;
  Stubs<GRPCInferenceService> stubs_;
};

}  // namespace

std::unique_ptr<Target> MakeKserveTarget(const Target::Options& options) {
  return std::make_unique<KserveTarget>(options);
}

}  // namespace penstock
