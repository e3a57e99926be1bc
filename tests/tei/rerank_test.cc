// Predict, Rerank and their streams, over loopback.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tei/tei_client.h"

namespace penstock::tei {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;

float SigmoidOf(float x) { return 1 / (1 + std::exp(-x)); }

TEST(TeiPredictTest, LabelsBestFirst) {
  EncodeServing serving(Classifying({"no", "yes", "maybe"}));
  const auto stub = wire::Predict::NewStub(Connect(serving.server->address()));
  wire::PredictRequest request;
  request.set_inputs("text");
  request.set_raw_scores(true);
  const std::vector<float> logits = Expected(serving.tokenizer, "text", {}, 3);
  const auto raw = Call(*stub, &wire::Predict::Stub::Predict, request);
  ASSERT_TRUE(raw.status.ok()) << raw.status.error_message();
  std::map<std::string, float> scores;
  for (const wire::Prediction& p : raw.response.predictions()) scores[p.label()] = p.score();
  EXPECT_EQ(scores, (std::map<std::string, float>{
                        {"no", logits[0]}, {"yes", logits[1]}, {"maybe", logits[2]}}));
  request.set_raw_scores(false);
  const auto got = Call(*stub, &wire::Predict::Stub::Predict, request);
  ASSERT_EQ(got.response.predictions_size(), 3);
  float sum = 0, last = 1;
  for (const wire::Prediction& p : got.response.predictions()) {
    EXPECT_LE(p.score(), last);
    last = p.score();
    sum += p.score();
  }
  EXPECT_NEAR(sum, 1, 1e-6);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(got.response.predictions(i).label(), raw.response.predictions(i).label());
}

TEST(TeiPredictTest, AStreamAnswersInOrder) {
  EncodeServing serving(Classifying({"no", "yes"}));
  const auto stub = wire::Predict::NewStub(Connect(serving.server->address()));
  ClientCall client;
  const auto stream = stub->PredictStream(&client);
  wire::PredictRequest request;
  request.set_raw_scores(true);
  for (int i = 0; i < 20; ++i) {
    request.set_inputs(absl::StrCat("text ", i));
    ASSERT_TRUE(stream->Write(request));
  }
  stream->WritesDone();
  wire::PredictResponse response;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(stream->Read(&response));
    const std::vector<float> logits = Expected(serving.tokenizer, absl::StrCat("text ", i), {}, 2);
    EXPECT_EQ(response.predictions(0).score(), std::max(logits[0], logits[1]));
  }
  EXPECT_TRUE(stream->Finish().ok());
}

class TeiRerankTest : public testing::Test {
 protected:
  void ExpectRefused(const wire::RerankRequest& request, const std::string& part) {
    const auto got = Call(*stub_, &wire::Rerank::Stub::Rerank, request);
    EXPECT_EQ(got.status.error_code(), StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(got.status.error_message(), HasSubstr(part));
  }
  float Logit(const std::string& text) { return Expected(serving_.tokenizer, "query", text, 1)[0]; }
  void ExpectRanks(const wire::RerankResponse& response, const std::vector<std::string>& texts,
                   bool raw, bool with_text) {
    ASSERT_EQ(response.ranks_size(), static_cast<int>(texts.size()));
    std::vector<bool> seen(texts.size());
    float last = 2;
    for (const wire::Rank& rank : response.ranks()) {
      ASSERT_LT(rank.index(), texts.size());
      EXPECT_FALSE(seen[rank.index()]);
      seen[rank.index()] = true;
      EXPECT_LE(rank.score(), last);
      last = rank.score();
      const float logit = Logit(texts[rank.index()]);
      const float expected = raw ? logit : SigmoidOf(logit);
      EXPECT_NEAR(rank.score(), expected, raw ? 0 : 1e-6);
      EXPECT_EQ(rank.has_text(), with_text);
      EXPECT_EQ(rank.text(), with_text ? texts[rank.index()] : "");
    }
  }

  EncodeServing serving_{Classifying({"relevance"})};
  std::unique_ptr<wire::Rerank::Stub> stub_ =
      wire::Rerank::NewStub(Connect(serving_.server->address()));
  const std::vector<std::string> texts_ = {"one", "two", "three", "four", "five"};
};

TEST_F(TeiRerankTest, TextsBestFirst) {
  wire::RerankRequest request;
  request.set_query("query");
  for (const std::string& text : texts_) request.add_texts(text);
  for (bool raw : {false, true})
    for (bool with_text : {false, true}) {
      request.set_raw_scores(raw);
      request.set_return_text(with_text);
      const auto got = Call(*stub_, &wire::Rerank::Stub::Rerank, request);
      ASSERT_TRUE(got.status.ok()) << got.status.error_message();
      ExpectRanks(got.response, texts_, raw, with_text);
    }
}

TEST_F(TeiRerankTest, BadRequestsAreRefusedByName) {
  wire::RerankRequest request;
  request.set_query("query");
  ExpectRefused(request, "texts");
  request.add_texts("a");
  request.add_texts("");
  ExpectRefused(request, "texts[1] is empty");
  request.set_texts(1, std::string(99, 'x'));
  ExpectRefused(request, "texts[1]");
  request.set_truncate(true);
  EXPECT_TRUE(Call(*stub_, &wire::Rerank::Stub::Rerank, request).status.ok());
  request.set_query("");
  ExpectRefused(request, "query is empty");
  request.set_query("query");
  while (request.texts_size() < 257) request.add_texts("a");
  ExpectRefused(request, "at most 256");
}

TEST_F(TeiRerankTest, NeedsOneLabel) {
  EncodeServing classifier(Classifying({"no", "yes"}));
  const auto stub = wire::Rerank::NewStub(Connect(classifier.server->address()));
  wire::RerankRequest request;
  request.set_query("query");
  request.add_texts("a");
  const auto got = Call(*stub, &wire::Rerank::Stub::Rerank, request);
  EXPECT_EQ(got.status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(got.status.error_message(), HasSubstr("one label; \"hashes\" has 2"));
}

wire::RerankStreamRequest Part(const std::string& query, const std::string& text) {
  wire::RerankStreamRequest request;
  request.set_query(query);
  request.set_text(text);
  request.set_raw_scores(true);
  return request;
}

TEST_F(TeiRerankTest, AStreamIsAnsweredWhenItsLastTextHasCome) {
  ClientCall client;
  wire::RerankResponse response;
  const auto stream = stub_->RerankStream(&client, &response);
  for (const std::string& text : texts_) ASSERT_TRUE(stream->Write(Part("query", text)));
  stream->WritesDone();
  const grpc::Status status = stream->Finish();
  ASSERT_TRUE(status.ok()) << status.error_message();
  ExpectRanks(response, texts_, /*raw=*/true, /*with_text=*/false);
}

TEST_F(TeiRerankTest, StreamsThatCannotBeAnsweredAreRefused) {
  const auto refused = [this](const std::vector<wire::RerankStreamRequest>& parts,
                              const std::string& part) {
    ClientCall client;
    wire::RerankResponse response;
    const auto stream = stub_->RerankStream(&client, &response);
    for (const wire::RerankStreamRequest& message : parts)
      if (!stream->Write(message)) break;
    stream->WritesDone();
    const grpc::Status status = stream->Finish();
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(part));
  };
  refused({Part("query", "a"), Part("other", "b")}, "message 1 of the stream has another query");
  auto flags = Part("query", "b");
  flags.set_return_text(true);
  refused({Part("query", "a"), flags}, "other flags");
  refused({Part("query", "a"), Part("query", "")}, "texts[1] is empty");
  refused(std::vector<wire::RerankStreamRequest>(257, Part("query", "a")), "at most 256");
  refused(std::vector<wire::RerankStreamRequest>(20, Part("query", std::string(1 << 20, 'a'))),
          "the stream has more than");
  {
    ClientCall client;
    wire::RerankResponse response;
    const auto stream = stub_->RerankStream(&client, &response);
    stream->WritesDone();
    EXPECT_EQ(stream->Finish().error_code(), StatusCode::INVALID_ARGUMENT);
  }
  ClientCall client;  // and the server answers others as before
  wire::RerankResponse response;
  const auto stream = stub_->RerankStream(&client, &response);
  for (const std::string& text : texts_) ASSERT_TRUE(stream->Write(Part("query", text)));
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(TeiRerankTest, ACancelledStreamLeavesNothingBehind) {
  for (int i = 0; i < 20; ++i) {
    ClientCall client;
    wire::RerankResponse response;
    const auto stream = stub_->RerankStream(&client, &response);
    ASSERT_TRUE(stream->Write(Part("query", "a")));
    client.TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), StatusCode::CANCELLED);
  }
  EXPECT_TRUE(Eventually([this] { return !serving_.batcher->state().has_work(); }));
}

}  // namespace
}  // namespace penstock::tei
