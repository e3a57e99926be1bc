// ModelInfer and ModelStreamInfer of a model that generates, over loopback.
#include <grpcpp/impl/codegen/client_unary_call.h>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/kserve/infer_client.h"
#include "tests/server/open_call.h"

namespace penstock::kserve {
namespace {

using grpc::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

// Greedy, of `tokens`.
inference::ModelInferRequest TextRequest(const std::string& prompt, int tokens,
                                         const std::string& id = "") {
  inference::ModelInferRequest request;
  request.set_model_name("letters");
  request.set_id(id);
  Inputs(request)
      .Strings("text_input", {prompt})
      .Strings("sampling_parameters",
               {absl::StrCat("{\"temperature\": 0, \"max_tokens\": ", tokens, "}")});
  return request;
}

class InferGenerateTest : public testing::Test {
 protected:
  void ExpectRefused(const inference::ModelInferRequest& request, StatusCode code,
                     const std::string& part) {
    const Inferred inferred = Infer(*stub_, request);
    EXPECT_EQ(inferred.status.error_code(), code) << inferred.status.error_message();
    EXPECT_THAT(inferred.status.error_message(), HasSubstr(part));
  }

  Serving serving_{WithKServe<Serving::Options>()};
  std::unique_ptr<Stub> stub_ = NewStub(serving_.address());
};

TEST_F(InferGenerateTest, AnswersTheWholeTextBehindThePromptUnlessToldOtherwise) {
  inference::ModelInferRequest request = TextRequest("ab", 4, "my id");
  Inferred inferred = Infer(*stub_, request);
  ASSERT_TRUE(inferred.status.ok()) << inferred.status.error_message();
  EXPECT_EQ(inferred.text(), "abcdef");
  EXPECT_EQ(inferred.response.id(), "my id");
  EXPECT_EQ(inferred.response.model_name(), "letters");
  EXPECT_EQ(inferred.response.model_version(), "1");
  EXPECT_EQ(inferred.response.outputs_size(), 1);
  EXPECT_THAT(ShapeOf(inferred.response, "text_output"), ElementsAre(1));

  Inputs(request).Bool("exclude_input_in_output", true);
  EXPECT_EQ(Infer(*stub_, request).text(), "cdef");
}

TEST_F(InferGenerateTest, IdsGoInAndComeOut) {
  for (const char* datatype : {"INT32", "INT64"}) {
    inference::ModelInferRequest request;
    Inputs inputs(request);
    if (datatype == std::string("INT32"))
      inputs.Numbers<int32_t>("input_ids", datatype, {1, 2}, {'x', 'a'});
    else
      inputs.Numbers<int64_t>("input_ids", datatype, {2}, {'x', 'a'});
    inputs.Numbers<int32_t>("request_output_len", "INT32", {1, 1}, {3})
        .Numbers<float>("temperature", "FP32", {1}, {0});
    const Inferred inferred = Infer(*stub_, request);
    ASSERT_TRUE(inferred.status.ok()) << inferred.status.error_message();
    EXPECT_EQ(inferred.text(), "bcd");
    EXPECT_THAT(NumbersOf<int32_t>(inferred.response, "output_ids"), ElementsAre('b', 'c', 'd'));
    EXPECT_THAT(ShapeOf(inferred.response, "output_ids"), ElementsAre(1, 3));
  }
}

TEST_F(InferGenerateTest, GivesTheOutputsThatAreAskedFor) {
  inference::ModelInferRequest request = TextRequest("ab", 3);
  Inputs(request)
      .Bool("return_finish_reason", true)
      .Bool("return_cumulative_logprob", true)
      .Bool("return_logprobs", true)
      .Bool("return_num_input_tokens", true)
      .Bool("return_num_output_tokens", true);
  Inferred inferred = Infer(*stub_, request);
  ASSERT_TRUE(inferred.status.ok()) << inferred.status.error_message();
  EXPECT_THAT(StringsOf(inferred.response, "finish_reason"), ElementsAre("length"));
  EXPECT_THAT(NumbersOf<float>(inferred.response, "cumulative_logprob"), ElementsAre(-1.5f));
  EXPECT_THAT(StringsOf(inferred.response, "logprobs"),
              ElementsAre(R"([{"99":{"logprob":-0.5}},{"100":{"logprob":-0.5}},)"
                          R"({"101":{"logprob":-0.5}}])"));
  EXPECT_THAT(NumbersOf<uint32_t>(inferred.response, "num_input_tokens"), ElementsAre(3u));
  EXPECT_THAT(NumbersOf<uint32_t>(inferred.response, "num_output_tokens"), ElementsAre(3u));

  request = TextRequest("aY", 5);
  request.add_outputs()->set_name("finish_reason");
  request.add_outputs()->set_name("output_ids");
  inferred = Infer(*stub_, request);
  EXPECT_EQ(inferred.response.outputs_size(), 2);
  EXPECT_THAT(StringsOf(inferred.response, "finish_reason"), ElementsAre("stop"));
  EXPECT_THAT(NumbersOf<int32_t>(inferred.response, "output_ids"), ElementsAre('Z', 256));
}

TEST_F(InferGenerateTest, SeveralSamplesAreSeveralElements) {
  inference::ModelInferRequest request = TextRequest("ab", 2);
  Inputs(request).Numbers<int32_t>("n", "INT32", {1}, {3});
  const Inferred inferred = Infer(*stub_, request);
  ASSERT_TRUE(inferred.status.ok()) << inferred.status.error_message();
  EXPECT_THAT(StringsOf(inferred.response, "text_output"), ElementsAre("abcd", "abcd", "abcd"));
  Inputs(request).Bool("stream", true);
  ExpectRefused(request, StatusCode::INVALID_ARGUMENT, "stream needs ModelStreamInfer");
}

TEST_F(InferGenerateTest, BadRequestsAreRefusedInTermsOfTheProtocol) {
  const auto bad = [this](StatusCode code, const std::string& part, auto change) {
    inference::ModelInferRequest request = TextRequest("ab", 2);
    change(request);
    ExpectRefused(request, code, part);
  };
  const StatusCode kInvalid = StatusCode::INVALID_ARGUMENT;
  bad(StatusCode::NOT_FOUND, "\"other\"", [](auto& r) { r.set_model_name("other"); });
  bad(StatusCode::NOT_FOUND, "version 2", [](auto& r) { r.set_model_version("2"); });
  bad(kInvalid, "model_version", [](auto& r) { r.set_model_version("x"); });
  bad(kInvalid, "text_input and input_ids", [](auto& r) { r.mutable_inputs(0)->set_name("top"); });
  bad(kInvalid, "text_input and input_ids",
      [](auto& r) { Inputs(r).Numbers<int32_t>("input_ids", "INT32", {1}, {1}); });
  bad(kInvalid, "text_input must be one string", [](auto& r) {
    r.clear_inputs();
    r.clear_raw_input_contents();
    Inputs(r).Strings("text_input", {"a", "b"});
  });
  bad(kInvalid, "text_input must be one string", [](auto& r) {
    r.clear_inputs();
    r.clear_raw_input_contents();
    Inputs(r).template Numbers<int32_t>("text_input", "INT32", {1}, {1});
  });
  for (const int64_t id : {int64_t{-1}, int64_t{1} << 40, int64_t{299}})
    bad(kInvalid, absl::StrCat(id), [id](auto& r) {
      r.clear_inputs();
      r.clear_raw_input_contents();
      Inputs(r).template Numbers<int64_t>("input_ids", "INT64", {1}, {id});
    });
  bad(kInvalid, "text", [](auto& r) {
    r.clear_inputs();
    r.clear_raw_input_contents();
    Inputs(r).Strings("text_input", {"\xff\xfe"});
  });
  bad(kInvalid, "temperature is -1", [](auto& r) {
    Inputs(r).template Numbers<float>("temperature", "FP32", {1}, {-1});
    r.mutable_raw_input_contents(1)->assign(4, '\0');
  });
  bad(kInvalid, "output \"x\" is none", [](auto& r) { r.add_outputs()->set_name("x"); });
  bad(StatusCode::UNIMPLEMENTED, "lora_name",
      [](auto& r) { Inputs(r).Strings("lora_name", {"l"}); });
  EXPECT_TRUE(Infer(*stub_, TextRequest("ab", 2)).status.ok());
  EXPECT_TRUE(Eventually([this] {
    return serving_.Metric(R"(penstock_requests_total{code="NOT_FOUND",method="kserve.ModelInfer",)"
                           R"(model="letters"})") == 2;
  }));
}

// A stream of requests and responses.
class StreamCall {
 public:
  explicit StreamCall(Stub& stub, bool ends_with_errors = false) {
    if (ends_with_errors) client_.AddMetadata("triton_grpc_error", "true");
    stream_ = stub.ModelStreamInfer(&client_);
  }
  bool Send(const inference::ModelInferRequest& request) { return stream_->Write(request); }
  void HalfClose() { stream_->WritesDone(); }
  void Cancel() { client_.TryCancel(); }
  bool Read(inference::ModelStreamInferResponse* message) { return stream_->Read(message); }
  // All messages to the end, by the id of their request.
  std::map<std::string, std::vector<inference::ModelStreamInferResponse>> ReadAll() {
    std::map<std::string, std::vector<inference::ModelStreamInferResponse>> by_id;
    inference::ModelStreamInferResponse message;
    while (Read(&message)) by_id[message.infer_response().id()].push_back(message);
    return by_id;
  }
  grpc::Status Finish() { return stream_->Finish(); }

 private:
  ClientCall client_;
  std::unique_ptr<
      grpc::ClientReaderWriter<inference::ModelInferRequest, inference::ModelStreamInferResponse>>
      stream_;
};

bool IsFinal(const inference::ModelStreamInferResponse& message) {
  return message.infer_response().parameters().at("triton_final_response").bool_param();
}

inference::ModelInferRequest Streaming(inference::ModelInferRequest request) {
  Inputs(request).Bool("stream", true);
  return request;
}

std::string TextOf(const std::vector<inference::ModelStreamInferResponse>& messages) {
  std::string text;
  for (const auto& message : messages)
    for (const std::string& part : StringsOf(message.infer_response(), "text_output")) text += part;
  return text;
}

TEST_F(InferGenerateTest, AStreamCarriesDeltasOfSeveralRequestsEachWithOneFinalResponse) {
  serving_.executor.set_step_delay(absl::Milliseconds(2));
  StreamCall call(*stub_);
  ASSERT_TRUE(call.Send(Streaming(TextRequest("a", 12, "1"))));
  ASSERT_TRUE(call.Send(Streaming(TextRequest("l", 3, "2"))));
  ASSERT_TRUE(call.Send(TextRequest("w", 3, "3")));
  call.HalfClose();
  auto messages = call.ReadAll();
  ASSERT_TRUE(call.Finish().ok());
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(TextOf(messages["1"]), "bcdefghijklm");
  EXPECT_EQ(TextOf(messages["2"]), "mno");
  EXPECT_EQ(TextOf(messages["3"]), "wxyz");
  EXPECT_GT(messages["1"].size(), 1u);
  EXPECT_EQ(messages["3"].size(), 1u);
  for (const auto& [id, of_one] : messages)
    for (const auto& message : of_one) EXPECT_EQ(IsFinal(message), &message == &of_one.back());
}

TEST_F(InferGenerateTest, ARequestIsAnsweredBeforeTheNextIsSent) {
  StreamCall call(*stub_);
  inference::ModelStreamInferResponse message;
  for (const char* prompt : {"a", "f", "k"}) {
    ASSERT_TRUE(call.Send(TextRequest(prompt, 1, prompt)));
    ASSERT_TRUE(call.Read(&message));
    EXPECT_EQ(message.infer_response().id(), prompt);
    EXPECT_TRUE(IsFinal(message));
  }
  call.HalfClose();
  EXPECT_FALSE(call.Read(&message));
  EXPECT_TRUE(call.Finish().ok());
}

TEST_F(InferGenerateTest, AFailedRequestIsToldWithinTheStreamAndOthersGoOn) {
  StreamCall call(*stub_);
  inference::ModelInferRequest bad = TextRequest("a", 1, "bad");
  bad.set_model_name("other");
  ASSERT_TRUE(call.Send(bad));
  ASSERT_TRUE(call.Send(TextRequest("a", 2, "good")));
  call.HalfClose();
  auto messages = call.ReadAll();
  EXPECT_TRUE(call.Finish().ok());
  ASSERT_EQ(messages["bad"].size(), 1u);
  EXPECT_THAT(messages["bad"][0].error_message(), HasSubstr("other"));
  EXPECT_TRUE(IsFinal(messages["bad"][0]));
  EXPECT_EQ(TextOf(messages["good"]), "abc");
  EXPECT_EQ(messages["good"][0].error_message(), "");
}

TEST_F(InferGenerateTest, OrWithTheStreamsStatusIfTheClientAsksForThat) {
  StreamCall call(*stub_, /*ends_with_errors=*/true);
  serving_.executor.set_step_delay(absl::Milliseconds(20));
  ASSERT_TRUE(call.Send(Streaming(TextRequest("a", 100, "good"))));
  inference::ModelInferRequest bad = TextRequest("a", 1, "bad");
  bad.set_model_name("other");
  ASSERT_TRUE(call.Send(bad));
  call.ReadAll();
  EXPECT_EQ(call.Finish().error_code(), StatusCode::NOT_FOUND);
  EXPECT_TRUE(Eventually([this] { return !serving_.scheduler->state().has_work(); }));
}

TEST_F(InferGenerateTest, ACancelledStreamEndsAllOfItsRequests) {
  serving_.executor.set_step_delay(absl::Milliseconds(5));
  StreamCall call(*stub_);
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(call.Send(Streaming(TextRequest("a", 100, absl::StrCat(i)))));
  inference::ModelStreamInferResponse message;
  ASSERT_TRUE(call.Read(&message));
  call.Cancel();
  call.ReadAll();
  EXPECT_EQ(call.Finish().error_code(), StatusCode::CANCELLED);
  EXPECT_TRUE(Eventually([this] { return !serving_.scheduler->state().has_work(); }));
  EXPECT_TRUE(Infer(*stub_, TextRequest("ab", 2)).status.ok());
}

TEST_F(InferGenerateTest, AStreamWithoutARequestEndsWell) {
  StreamCall call(*stub_);
  call.HalfClose();
  EXPECT_TRUE(call.ReadAll().empty());
  EXPECT_TRUE(call.Finish().ok());
}

TEST_F(InferGenerateTest, StreamedOutputsAreOfTheirPartAndTheInputsNumberComesLast) {
  StreamCall call(*stub_);
  inference::ModelInferRequest request = Streaming(TextRequest("ab", 6, "1"));
  Inputs(request)
      .Bool("return_finish_reason", true)
      .Bool("return_num_input_tokens", true)
      .Bool("return_num_output_tokens", true);
  ASSERT_TRUE(call.Send(request));
  call.HalfClose();
  const auto messages = call.ReadAll()["1"];
  ASSERT_TRUE(call.Finish().ok());
  uint32_t tokens = 0;
  for (const auto& message : messages) {
    const auto& response = message.infer_response();
    for (uint32_t n : NumbersOf<uint32_t>(response, "num_output_tokens")) tokens += n;
    EXPECT_THAT(StringsOf(response, "finish_reason"),
                ElementsAre(IsFinal(message) ? "length" : ""));
    EXPECT_EQ(Find(response, "num_input_tokens") >= 0, IsFinal(message));
  }
  EXPECT_EQ(tokens, 6u);
}

// A request whose id is no UTF-8.
grpc::ByteBuffer Malformed() {
  std::string bytes = TextRequest("ab", 2, "##").SerializeAsString();
  bytes[bytes.find("##")] = '\xff';
  const grpc::Slice slice(bytes);
  return {&slice, 1};
}

TEST_F(InferGenerateTest, MalformedMessagesAreRefusedInBothKindsOfCall) {
  using grpc::internal::RpcMethod;
  const auto channel = grpc::CreateChannel(serving_.address(), grpc::InsecureChannelCredentials());
  grpc::ByteBuffer response;
  ClientCall unary;
  const RpcMethod infer("/inference.GRPCInferenceService/ModelInfer", RpcMethod::NORMAL_RPC,
                        channel);
  const grpc::Status status =
      grpc::internal::BlockingUnaryCallImpl<grpc::ByteBuffer, grpc::ByteBuffer>(
          channel.get(), infer, &unary, Malformed(), &response)
          .status();
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("ModelInferRequest"));

  ClientCall streaming;
  const RpcMethod stream_infer("/inference.GRPCInferenceService/ModelStreamInfer",
                               RpcMethod::BIDI_STREAMING, channel);
  const std::unique_ptr<grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> stream(
      grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>::Create(
          channel.get(), stream_infer, &streaming));
  ASSERT_TRUE(stream->Write(Malformed()));
  ASSERT_TRUE(stream->Read(&response));
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(InferGenerateTest, StatisticsCountWhatCame) {
  ASSERT_TRUE(Infer(*stub_, TextRequest("ab", 2)).status.ok());
  ASSERT_TRUE(Infer(*stub_, TextRequest("ab", 2)).status.ok());
  inference::ModelInferRequest bad = TextRequest("ab", 2);
  bad.add_outputs()->set_name("x");
  ASSERT_FALSE(Infer(*stub_, bad).status.ok());
  inference::ModelStatisticsResponse response;
  EXPECT_TRUE(Eventually([&] {
    ClientCall client;
    inference::ModelStatisticsRequest request;
    request.set_name("letters");
    EXPECT_TRUE(stub_->ModelStatistics(&client, request, &response).ok());
    return response.model_stats(0).inference_stats().fail().count() == 1;
  }));
  const inference::ModelStatistics& statistics = response.model_stats(0);
  EXPECT_EQ(statistics.name(), "letters");
  EXPECT_EQ(statistics.inference_count(), 2u);
  EXPECT_EQ(statistics.execution_count(), 2u);
  EXPECT_EQ(statistics.inference_stats().success().count(), 2u);
  EXPECT_GT(statistics.inference_stats().success().ns(), 0u);
  EXPECT_GT(statistics.last_inference(), 1'600'000'000'000u);
}

}  // namespace
}  // namespace penstock::kserve
