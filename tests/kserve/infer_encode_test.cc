// ModelInfer and ModelStreamInfer of one-shot models, over loopback.
#include <cmath>
#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/kserve/infer_client.h"

namespace penstock::kserve {
namespace {

using grpc::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

class InferEncodeTest : public testing::Test {
 protected:
  std::vector<float> Expected(const std::string& text,
                              std::optional<absl::string_view> pair = std::nullopt) {
    const Encoding encoding = serving_.tokenizer.EncodeInput(text, pair, 0);
    return FakeEncode(encoding.ids, encoding.types, 3);
  }
  void ExpectRefused(const inference::ModelInferRequest& request, StatusCode code,
                     const std::string& part) {
    const Inferred inferred = Infer(*stub_, request);
    EXPECT_EQ(inferred.status.error_code(), code) << inferred.status.error_message();
    EXPECT_THAT(inferred.status.error_message(), HasSubstr(part));
  }

  EncodeServing serving_{WithKServe<EncodeServing::Options>()};
  std::unique_ptr<Stub> stub_ = NewStub(serving_.server->address());
};

std::vector<float> Joined(std::vector<float> a, const std::vector<float>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST_F(InferEncodeTest, TextsBecomeRowsOfOneTensor) {
  for (const char* name : {"text", "text_input"}) {
    inference::ModelInferRequest request;
    request.set_id("i");
    Inputs(request).Strings(name, {"one", "another"});
    const Inferred inferred = Infer(*stub_, request);
    ASSERT_TRUE(inferred.status.ok()) << inferred.status.error_message();
    EXPECT_EQ(inferred.response.id(), "i");
    EXPECT_THAT(ShapeOf(inferred.response, "embedding"), ElementsAre(2, 3));
    EXPECT_EQ(NumbersOf<float>(inferred.response, "embedding"),
              Joined(Expected("one"), Expected("another")));
  }
}

TEST_F(InferEncodeTest, PairsAndNormalizing) {
  inference::ModelInferRequest request;
  Inputs(request).Strings("text", {"query"}).Strings("pair", {"document"});
  EXPECT_EQ(NumbersOf<float>(Infer(*stub_, request).response, "embedding"),
            Expected("query", "document"));
  (*request.mutable_parameters())["normalize"].set_bool_param(true);
  double squares = 0;
  for (float v : NumbersOf<float>(Infer(*stub_, request).response, "embedding"))
    squares += static_cast<double>(v) * v;
  EXPECT_NEAR(squares, 1, 1e-6);
}

TEST_F(InferEncodeTest, RowsOfIdsEndWhereTheirMaskDoes) {
  inference::ModelInferRequest request;
  Inputs(request)
      .Numbers<int64_t>("input_ids", "INT64", {2, 3}, {5, 6, 7, 8, 0, 0})
      .Numbers<int64_t>("attention_mask", "INT64", {2, 3}, {1, 1, 1, 1, 0, 0})
      .Numbers<int64_t>("token_type_ids", "INT64", {2, 3}, {0, 0, 0, 0, 0, 0});
  const Inferred inferred = Infer(*stub_, request);
  ASSERT_TRUE(inferred.status.ok()) << inferred.status.error_message();
  EXPECT_EQ(NumbersOf<float>(inferred.response, "embedding"),
            Joined(FakeEncode({5, 6, 7}, {}, 3), FakeEncode({8}, {}, 3)));
}

struct Refusal {
  std::string part;
  std::function<void(inference::ModelInferRequest&)> fill;
  StatusCode code = StatusCode::INVALID_ARGUMENT;
};

using Request = inference::ModelInferRequest;

const Refusal kTextRefusals[] = {
    {"text (or text_input) and input_ids", [](Request&) {}},
    {"text[1] is empty",
     [](Request& r) {
       Inputs(r).Strings("text", {"a", ""});
     }},
    {"text is not UTF-8",
     [](Request& r) {
       Inputs(r).Strings("text", {"a", "\xff"});
     }},
    {"has 1 strings beside 2",
     [](Request& r) {
       Inputs(r).Strings("text", {"a", "b"}).Strings("pair", {"c"});
     }},
    {"\"txet\" is no input", [](Request& r) { Inputs(r).Strings("txet", {"a"}); }},
    {"at most 256",
     [](Request& r) { Inputs(r).Strings("text", std::vector<std::string>(257, "a")); }},
    {"tokens; at most 48", [](Request& r) { Inputs(r).Strings("text", {std::string(99, 'x')}); }},
    {"\"scores\"",
     [](Request& r) {
       Inputs(r).Strings("text", {"a"});
       r.add_outputs()->set_name("scores");
     }},
    {"classification needs a model that classifies",
     [](Request& r) {
       Inputs(r).Strings("text", {"a"});
       r.add_outputs()->set_name("embedding");
       (*r.mutable_outputs(0)->mutable_parameters())["classification"].set_int64_param(1);
     }},
    {"\"other\"",
     [](Request& r) {
       Inputs(r).Strings("text", {"a"});
       r.set_model_name("other");
     },
     StatusCode::NOT_FOUND},
};

const Refusal kIdRefusals[] = {
    {"input_ids must be integers of shape [b, s]",
     [](Request& r) {
       Inputs(r).Numbers<int64_t>("input_ids", "INT64", {2}, {1, 2});
     }},
    {"attention_mask has tokens behind padding",
     [](Request& r) {
       Inputs(r)
           .Numbers<int64_t>("input_ids", "INT64", {1, 2}, {1, 2})
           .Numbers<int64_t>("attention_mask", "INT64", {1, 2}, {0, 1});
     }},
    {"attention_mask must be integers of the shape",
     [](Request& r) {
       Inputs(r)
           .Numbers<int64_t>("input_ids", "INT64", {1, 2}, {1, 2})
           .Numbers<int64_t>("attention_mask", "INT64", {2, 1}, {0, 1});
     }},
    {"input_ids[0] has -4",
     [](Request& r) {
       Inputs(r).Numbers<int64_t>("input_ids", "INT64", {1, 1}, {-4});
     }},
    {"input_ids[0] is empty",
     [](Request& r) {
       Inputs(r).Numbers<int64_t>("input_ids", "INT64", {1, 0}, {});
     }},
    {"token_type_ids",
     [](Request& r) {
       Inputs(r)
           .Numbers<int64_t>("input_ids", "INT64", {1, 2}, {1, 2})
           .Numbers<int64_t>("token_type_ids", "INT64", {1, 2}, {0, 1});
     },
     StatusCode::UNIMPLEMENTED},
};

TEST_F(InferEncodeTest, BadRequestsAreRefusedByName) {
  const auto refused = [this](const Refusal& refusal) {
    Request request;
    refusal.fill(request);
    ExpectRefused(request, refusal.code, refusal.part);
  };
  for (const Refusal& refusal : kTextRefusals) refused(refusal);
  for (const Refusal& refusal : kIdRefusals) refused(refusal);
  Request good;
  Inputs(good).Strings("text", {std::string(99, 'x')});
  (*good.mutable_parameters())["truncate"].set_bool_param(true);
  EXPECT_TRUE(Infer(*stub_, good).status.ok());
}

TEST_F(InferEncodeTest, AStreamTakesManyRequests) {
  ClientCall client;
  const auto stream = stub_->ModelStreamInfer(&client);
  constexpr int kRequests = 600;  // more than are read ahead
  std::thread writer([&] {
    for (int i = 0; i < kRequests; ++i) {
      inference::ModelInferRequest request;
      request.set_id(absl::StrCat(i));
      Inputs(request).Strings("text", {absl::StrCat("text ", i)});
      ASSERT_TRUE(stream->Write(request));
    }
    stream->WritesDone();
  });
  std::map<std::string, std::vector<float>> answers;
  inference::ModelStreamInferResponse message;
  while (stream->Read(&message)) {
    EXPECT_EQ(message.error_message(), "");
    answers[message.infer_response().id()] =
        NumbersOf<float>(message.infer_response(), "embedding");
  }
  writer.join();
  EXPECT_TRUE(stream->Finish().ok());
  ASSERT_EQ(answers.size(), size_t{kRequests});
  for (int i = 0; i < kRequests; ++i)
    EXPECT_EQ(answers[absl::StrCat(i)], Expected(absl::StrCat("text ", i)));
}

TEST(InferClassifyTest, GivesScoresRawScoresAndTheBestClasses) {
  EncodeServing::Options options;
  options.encoder = Classifier({"bad", "so-so", "good"});
  EncodeServing serving(WithKServe(options));
  const auto stub = NewStub(serving.server->address());
  inference::ModelInferRequest request;
  Inputs(request).Strings("text", {"a"});
  const std::vector<float> scores = NumbersOf<float>(Infer(*stub, request).response, "scores");
  ASSERT_EQ(scores.size(), 3u);
  EXPECT_NEAR(scores[0] + scores[1] + scores[2], 1, 1e-6);
  (*request.mutable_parameters())["raw_scores"].set_bool_param(true);
  const std::vector<float> raw = NumbersOf<float>(Infer(*stub, request).response, "scores");
  const Encoding encoding = serving.tokenizer.EncodeInput("a", std::nullopt, 0);
  EXPECT_EQ(raw, FakeEncode(encoding.ids, encoding.types, 3));

  request.add_outputs()->set_name("scores");
  (*request.mutable_outputs(0)->mutable_parameters())["classification"].set_int64_param(2);
  const Inferred best = Infer(*stub, request);
  EXPECT_THAT(ShapeOf(best.response, "scores"), ElementsAre(1, 2));
  const std::vector<std::string> classes = StringsOf(best.response, "scores");
  ASSERT_EQ(classes.size(), 2u);
  const auto top = std::max_element(raw.begin(), raw.end()) - raw.begin();
  const char* labels[] = {"bad", "so-so", "good"};
  EXPECT_EQ(classes[0], absl::StrCat(raw[static_cast<size_t>(top)], ":", top, ":", labels[top]));
}

}  // namespace
}  // namespace penstock::kserve
