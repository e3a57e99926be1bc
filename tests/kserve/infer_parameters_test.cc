// What a request may ask for by name, said as parameters, tensors or JSON; and what is refused.
#include "server/kserve/infer_parameters.h"

#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace penstock::kserve {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

struct Read {
  absl::Status status;
  v1::GenerateRequest request;
  AnswerOptions options;
};

class InferParametersTest : public testing::Test {
 protected:
  inference::InferParameter& Parameter(const std::string& name) {
    return (*infer_.mutable_parameters())[name];
  }
  void Tensor(const std::string& name, const std::string& datatype,
              decltype(InferTensor::values) values) {
    InferTensor tensor;
    tensor.datatype = datatype;
    tensor.values = std::move(values);
    tensor.shape = {static_cast<int64_t>(tensor.size())};
    tensors_[name] = std::move(tensor);
  }
  void Json(const std::string& text) {
    Tensor("sampling_parameters", "BYTES", std::vector<std::string>{text});
  }
  Read ReadAll() {
    Read read;
    read.status = ReadParameters(infer_, tensors_, &read.request, &read.options);
    return read;
  }
  void ExpectRefused(StatusCode code, const std::string& part) {
    const absl::Status status = ReadAll().status;
    EXPECT_EQ(status.code(), code) << status << " for " << part;
    EXPECT_THAT(status.message(), HasSubstr(part));
  }

  inference::ModelInferRequest infer_;
  std::map<std::string, InferTensor, std::less<>> tensors_;
};

TEST_F(InferParametersTest, TheSameIsSaidAsJsonOfNumbersAndAsJsonOfStrings) {
  Json(R"({"temperature": 0.5, "top_k": 7, "top_p": 0.9, "min_p": 0.1, "seed": 3,
           "max_tokens": 9, "min_tokens": 2, "ignore_eos": true, "n": 2,
           "repetition_penalty": 1.5, "presence_penalty": 0.25, "frequency_penalty": -0.5,
           "stop": ["a", "b"], "stop_token_ids": [1, 2], "include_stop_str_in_output": true,
           "skip_special_tokens": false, "logprobs": 3, "logit_bias": {"5": -1.5}})");
  const Read numbers = ReadAll();
  ASSERT_TRUE(numbers.status.ok()) << numbers.status;
  const v1::GenerateRequest& request = numbers.request;
  EXPECT_FLOAT_EQ(request.sampling().temperature(), 0.5f);
  EXPECT_EQ(request.sampling().top_k(), 7u);
  EXPECT_FLOAT_EQ(request.sampling().top_p(), 0.9f);
  EXPECT_FLOAT_EQ(request.sampling().min_p(), 0.1f);
  EXPECT_EQ(request.sampling().seed(), 3u);
  EXPECT_FLOAT_EQ(request.sampling().repetition_penalty(), 1.5f);
  EXPECT_FLOAT_EQ(request.sampling().presence_penalty(), 0.25f);
  EXPECT_FLOAT_EQ(request.sampling().frequency_penalty(), -0.5f);
  EXPECT_FLOAT_EQ(request.sampling().logit_bias().at(5), -1.5f);
  EXPECT_EQ(request.stopping().max_tokens(), 9u);
  EXPECT_EQ(request.stopping().min_tokens(), 2u);
  EXPECT_TRUE(request.stopping().ignore_eos());
  EXPECT_TRUE(request.stopping().include_stop_in_output());
  EXPECT_THAT(request.stopping().stop(), ElementsAre("a", "b"));
  EXPECT_THAT(request.stopping().stop_token_ids(), ElementsAre(1, 2));
  EXPECT_FALSE(request.output().skip_special_tokens());
  EXPECT_EQ(request.output().logprobs(), 3u);
  EXPECT_EQ(request.n(), 2u);

  Json(R"({"temperature": "0.5", "top_k": "7", "top_p": "0.9", "min_p": "0.1", "seed": "3",
           "max_tokens": "9", "min_tokens": "2", "ignore_eos": "true", "n": "2",
           "repetition_penalty": "1.5", "presence_penalty": "0.25", "frequency_penalty": "-0.5",
           "stop": ["a", "b"], "stop_token_ids": ["1", "2"], "include_stop_str_in_output": "true",
           "skip_special_tokens": "false", "logprobs": "3", "logit_bias": {"5": "-1.5"}})");
  const Read strings = ReadAll();
  ASSERT_TRUE(strings.status.ok()) << strings.status;
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(strings.request, request));
}

TEST_F(InferParametersTest, TensorsAndParametersSayTheSame) {
  Tensor("max_tokens", "INT32", std::vector<int64_t>{5});
  Tensor("temperature", "FP32", std::vector<double>{0.5});
  Tensor("stop_words", "BYTES", std::vector<std::string>{"x", "y"});
  Tensor("stream", "BOOL", std::vector<int64_t>{1});
  Tensor("stop_token_ids", "INT32", std::vector<int64_t>{});
  Parameter("top_k").set_int64_param(3);
  Parameter("top_p").set_double_param(0.75);
  Parameter("ignore_eos").set_bool_param(true);
  Parameter("seed").set_uint64_param(~0ull);
  Parameter("exclude_input_in_output").set_string_param("true");
  Parameter("my_own").set_string_param("anything");
  const Read read = ReadAll();
  ASSERT_TRUE(read.status.ok()) << read.status;
  EXPECT_EQ(read.request.stopping().max_tokens(), 5u);
  EXPECT_FLOAT_EQ(read.request.sampling().temperature(), 0.5f);
  EXPECT_THAT(read.request.stopping().stop(), ElementsAre("x", "y"));
  EXPECT_TRUE(read.options.stream);
  EXPECT_EQ(read.request.sampling().top_k(), 3u);
  EXPECT_FLOAT_EQ(read.request.sampling().top_p(), 0.75f);
  EXPECT_TRUE(read.request.stopping().ignore_eos());
  EXPECT_EQ(read.request.sampling().seed(), ~0ull);
  EXPECT_EQ(read.options.exclude_input, true);
}

TEST_F(InferParametersTest, JsonCountsBeforeTensorsBeforeParameters) {
  Parameter("max_tokens").set_int64_param(1);
  EXPECT_EQ(ReadAll().request.stopping().max_tokens(), 1u);
  Tensor("max_tokens", "INT32", std::vector<int64_t>{2});
  EXPECT_EQ(ReadAll().request.stopping().max_tokens(), 2u);
  Json(R"({"max_tokens": 3})");
  EXPECT_EQ(ReadAll().request.stopping().max_tokens(), 3u);
}

TEST_F(InferParametersTest, TopKOfMinusOneIsAll) {
  Json(R"({"top_k": -1})");
  EXPECT_EQ(ReadAll().request.sampling().top_k(), 0u);
  Json(R"({"top_k": -2})");
  ExpectRefused(StatusCode::kInvalidArgument, "top_k is -2");
}

TEST_F(InferParametersTest, WrongTypesAreRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"temperature": "warm"})", "temperature must be a number"},
      {R"({"temperature": [1]})", "temperature must be a number"},
      {R"({"top_k": 1.5})", "top_k must be an integer"},
      {R"({"max_tokens": -1})", "max_tokens is -1"},
      {R"({"max_tokens": 1e300})", "max_tokens must be an integer"},
      {R"({"max_tokens": 2147483648})", "max_tokens is 2147483648"},
      {R"({"max_tokens": 18446744073709551615})", "max_tokens"},
      {R"({"ignore_eos": 2})", "ignore_eos must be a bool"},
      {R"({"stop": [1]})", "stop must be a string"},
      {R"({"stop": {"a": 1}})", "stop must be a string"},
      {R"({"stop_token_ids": ["x"]})", "stop_token_ids must be an integer"},
      {R"({"logit_bias": [1]})", "logit_bias must be an object"},
      {R"({"logit_bias": {"x": 1}})", "logit_bias.x must be an integer"},
      {R"({"logit_bias": {"1": "y"}})", "logit_bias.1 must be a number"},
      {R"({"temprature": 1})", "\"temprature\" is no input or parameter"},
      {R"([1])", "no JSON object"},
      {R"({"a": )", "sampling_parameters"},
      {R"({"max_tokens": 1, "max_tokens": 2})", "sampling_parameters"},
      {std::string(1 << 20, '['), "sampling_parameters"},
      {"{\"stop\": \"\xff\"}", "sampling_parameters"},
  };
  for (const auto& [json, part] : cases) {
    Json(json);
    ExpectRefused(StatusCode::kInvalidArgument, part);
  }
  tensors_.clear();
  Tensor("top_q", "FP32", std::vector<double>{1});
  ExpectRefused(StatusCode::kInvalidArgument, "\"top_q\" is no input");
  tensors_.clear();
  Tensor("max_tokens", "INT32", std::vector<int64_t>{1, 2});
  ExpectRefused(StatusCode::kInvalidArgument, "max_tokens must be an integer");
}

TEST_F(InferParametersTest, WhatIsNotThereIsRefusedByNameUnlessItAsksForNothing) {
  for (const char* json :
       {R"({"guided_json": {"type": "object"}})", R"({"guided_regex": "a*"})",
        R"({"structured_outputs": {"choice": ["a"]}})", R"({"response_format": {"type": "json"}})",
        R"({"lora_name": "l"})", R"({"use_beam_search": true})", R"({"beam_width": 2})",
        R"({"best_of": 2})", R"({"bad_words": ["x"]})", R"({"prompt_logprobs": 1})",
        R"({"image": "AAAA"})", R"({"typical_p": 0.5})", R"({"truncate_prompt_tokens": 4})"}) {
    Json(json);
    const absl::Status status = ReadAll().status;
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << json << ": " << status;
    const std::string text = json;
    EXPECT_THAT(status.message(), HasSubstr(text.substr(2, text.find('"', 2) - 2)));
  }
  Json(R"({"guided_json": null, "lora_name": "", "use_beam_search": false, "beam_width": 1,
           "best_of": 1, "bad_words": [], "length_penalty": 1.0, "detokenize": true})");
  EXPECT_TRUE(ReadAll().status.ok()) << ReadAll().status;
  tensors_.clear();
  Parameter("lora_name").set_string_param("l");
  ExpectRefused(StatusCode::kUnimplemented, "lora_name");
}

TEST_F(InferParametersTest, PriorityAndTimeoutAreTheProtocols) {
  v1::Scheduling scheduling;
  Parameter("priority").set_uint64_param(60);
  Parameter("timeout").set_int64_param(1'500'000);
  ASSERT_TRUE(ReadProtocolParameters(infer_, &scheduling).ok());
  EXPECT_EQ(scheduling.priority(), 10);
  EXPECT_DOUBLE_EQ(scheduling.queue_timeout_seconds(), 1.5);
  scheduling.Clear();
  Parameter("priority").set_uint64_param(0);
  Parameter("timeout").set_int64_param(0);
  Parameter("sequence_id").set_int64_param(0);
  Parameter("triton_enable_empty_final_response").set_bool_param(true);
  ASSERT_TRUE(ReadProtocolParameters(infer_, &scheduling).ok());
  EXPECT_EQ(scheduling.ByteSizeLong(), 0u);

  const auto refusal = [&] { return ReadProtocolParameters(infer_, &scheduling); };
  Parameter("priority").set_uint64_param(101);
  EXPECT_THAT(refusal().message(), HasSubstr("priority is 101"));
  Parameter("priority").set_int64_param(0);
  Parameter("timeout").set_int64_param(-1);
  EXPECT_THAT(refusal().message(), HasSubstr("timeout is -1"));
  Parameter("timeout").set_int64_param(0);
  Parameter("sequence_id").set_string_param("s");
  EXPECT_EQ(refusal().code(), StatusCode::kUnimplemented);
  infer_.clear_parameters();
  Parameter("triton_final_response").set_bool_param(true);
  EXPECT_THAT(refusal().message(), HasSubstr("triton_final_response"));
}

}  // namespace
}  // namespace penstock::kserve
