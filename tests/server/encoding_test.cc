#include <grpcpp/generic/generic_stub.h>

#include <cmath>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/encoding_fixture.h"

namespace penstock {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;

class EmbedTest : public testing::Test {
 protected:
  grpc::Status Embed(const v1::EmbedRequest& request, absl::Duration timeout = absl::Seconds(30)) {
    ClientCall client(timeout);
    response_.Clear();
    return stub_->Embed(&client, request, &response_);
  }
  // What the model says of `text` and its `pair`.
  std::vector<float> Expected(const std::string& text,
                              std::optional<absl::string_view> pair = std::nullopt) {
    const Encoding encoding = serving_.tokenizer.EncodeInput(text, pair, 0);
    return FakeEncode(encoding.ids, encoding.types, 3);
  }
  std::vector<float> Values(int index) const {
    const auto& values = response_.embeddings(index).values();
    return {values.begin(), values.end()};
  }
  void ExpectRefused(const v1::EmbedRequest& request, const std::string& part) {
    const grpc::Status status = Embed(request);
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(part));
  }

  EncodeServing serving_;
  std::unique_ptr<v1::Encoding::Stub> stub_ = v1::Encoding::NewStub(serving_.NewChannel());
  v1::EmbedResponse response_;
};

TEST_F(EmbedTest, EveryInputGetsItsOwnVectorInOrder) {
  ASSERT_TRUE(Embed(EmbedTexts({"one", "two", "a third one", "one"})).ok());
  ASSERT_EQ(response_.embeddings_size(), 4);
  EXPECT_EQ(Values(0), Expected("one"));
  EXPECT_EQ(Values(1), Expected("two"));
  EXPECT_EQ(Values(2), Expected("a third one"));
  EXPECT_EQ(Values(3), Values(0));
  EXPECT_EQ(response_.embeddings(2).tokens(), 12u);  // BOS
  EXPECT_FALSE(response_.embeddings(2).truncated());
  EXPECT_GT(response_.timings().total_seconds(), 0);
  EXPECT_GE(response_.timings().total_seconds(), response_.timings().queue_seconds());
  EXPECT_THAT(serving_.executor.violations(), testing::IsEmpty());
}

TEST_F(EmbedTest, TokensAreUsedAsTheyAreAndPairsHaveTypes) {
  v1::EmbedRequest request = EmbedTexts({"query"});
  request.mutable_inputs(0)->set_pair("document");
  request.add_inputs()->mutable_tokens()->add_ids(7);
  ASSERT_TRUE(Embed(request).ok());
  EXPECT_EQ(Values(0), Expected("query", "document"));
  EXPECT_NE(Values(0), Expected("query"));
  EXPECT_EQ(Values(1), FakeEncode({7}, {}, 3));
}

TEST_F(EmbedTest, TooLongIsRefusedWithTheNumbersOrCutWhenAsked) {
  const std::string text(100, 'x');  // the context has 48 tokens
  v1::EmbedRequest request = EmbedTexts({"short", text});
  ExpectRefused(request, "inputs[1] has 101 tokens; at most 48");
  request.set_truncate(true);
  ASSERT_TRUE(Embed(request).ok());
  EXPECT_TRUE(response_.embeddings(1).truncated());
  EXPECT_FALSE(response_.embeddings(0).truncated());
  EXPECT_EQ(response_.embeddings(1).tokens(), 48u);
  EXPECT_EQ(Values(1), Expected(std::string(47, 'x')));

  request.mutable_inputs(1)->set_text(std::string(1 << 20, 'x'));
  ASSERT_TRUE(Embed(request).ok());
  EXPECT_EQ(Values(1), Expected(std::string(47, 'x')));
  request.clear_truncate();
  ExpectRefused(request, "inputs[1] has 1048577 tokens");
}

TEST_F(EmbedTest, BadCallsAreRefusedByFieldAndTheNextWorks) {
  ExpectRefused(v1::EmbedRequest(), "inputs is empty");
  ExpectRefused(EmbedTexts({"a", ""}), "inputs[1] is empty");
  ExpectRefused(EmbedTexts(std::vector<std::string>(257, "a")), "257 entries; at most 256");
  v1::EmbedRequest request = EmbedTexts({"a"});
  request.add_inputs()->mutable_tokens()->add_ids(ByteTokenizer::kVocab);
  ExpectRefused(request, "inputs[1] has token id 258");
  request.mutable_inputs(1)->mutable_tokens()->set_ids(0, -1);
  ExpectRefused(request, "token id -1");
  request.mutable_inputs(1)->mutable_tokens()->clear_ids();
  ExpectRefused(request, "inputs[1] is empty");
  request.mutable_inputs(1)->mutable_tokens()->add_ids(1);
  request.mutable_inputs(1)->set_pair("b");
  ExpectRefused(request, "inputs[1].pair");
  request = EmbedTexts({"a"});
  request.mutable_scheduling()->set_priority(101);
  ExpectRefused(request, "scheduling.priority");
  request = EmbedTexts({"a"});
  request.set_model("other");
  EXPECT_EQ(Embed(request).error_code(), StatusCode::NOT_FOUND);
  EXPECT_TRUE(Embed(EmbedTexts({"a"})).ok());
}

TEST_F(EmbedTest, WhatIsNoMessageIsNamed) {
  grpc::GenericStub stub(serving_.NewChannel());
  const grpc::Slice slice("\x12\x03\x0a\x01\xff");  // inputs { text: "\xff" }
  grpc::ByteBuffer request(&slice, 1), response;
  ClientCall client;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(&client, "/penstock.v1.Encoding/Embed", request, &queue);
  grpc::Status status;
  call->StartCall();
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  ASSERT_TRUE(queue.Next(&tag, &ok));
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("penstock.v1.EmbedRequest"));
}

TEST_F(EmbedTest, CallsOfManyClientsShareBatches) {
  serving_.executor.set_step_time(absl::Milliseconds(5));
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        const std::string text = absl::StrCat("thread ", t, " text ", i);
        ClientCall client;
        v1::EmbedResponse response;
        if (!stub_->Embed(&client, EmbedTexts({text}), &response).ok()) continue;
        const auto& values = response.embeddings(0).values();
        if (std::vector<float>(values.begin(), values.end()) == Expected(text)) ++right;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right.load(), 80);
  const std::vector<int32_t> sizes = serving_.executor.batch_sizes();
  EXPECT_LT(sizes.size(), 60u);
  EXPECT_THAT(serving_.executor.violations(), testing::IsEmpty());
}

TEST_F(EmbedTest, OtherKindsOfCallsNameTheModelsKind) {
  ClientCall generate_client;
  const auto generation = v1::Generation::NewStub(serving_.NewChannel());
  const auto reader = generation->Generate(&generate_client, TextRequest("a", 1));
  v1::GenerateResponse message;
  EXPECT_FALSE(reader->Read(&message));
  const grpc::Status generate = reader->Finish();
  EXPECT_EQ(generate.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(generate.error_message(), HasSubstr("\"embed\""));

  ClientCall classify_client;
  v1::ClassifyRequest request;
  request.add_inputs()->set_text("a");
  v1::ClassifyResponse response;
  const grpc::Status classify = stub_->Classify(&classify_client, request, &response);
  EXPECT_EQ(classify.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(classify.error_message(), HasSubstr("\"embed\""));
}

TEST(EncodingTest, AModelThatGeneratesSaysSo) {
  Serving serving;
  const auto stub = v1::Encoding::NewStub(
      grpc::CreateChannel(serving.address(), grpc::InsecureChannelCredentials()));
  ClientCall client;
  v1::EmbedResponse response;
  const grpc::Status status = stub->Embed(&client, EmbedTexts({"a"}), &response);
  EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("\"generate\""));
}

// While a step is stuck, what waits behind it ends when its time is over, not when the step is.
TEST_F(EmbedTest, DeadlinesAndQueueTimeoutsPassWhileAStepRuns) {
  serving_.executor.Hold();
  std::thread running([&] {
    ClientCall client;
    v1::EmbedResponse response;
    EXPECT_TRUE(stub_->Embed(&client, EmbedTexts({"runs"}), &response).ok());
  });
  ASSERT_TRUE(Eventually([&] { return serving_.batcher->state().in_flight == 1; }));
  v1::EmbedRequest request = EmbedTexts({"waits"});
  request.mutable_scheduling()->set_queue_timeout_seconds(0.1);
  absl::Time begin = absl::Now();
  grpc::Status status = Embed(request);
  EXPECT_EQ(status.error_code(), StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(status.error_message(), HasSubstr("queue timeout"));
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(100));
  EXPECT_LE(absl::Now() - begin, absl::Seconds(5));

  begin = absl::Now();
  status = Embed(EmbedTexts({"waits"}), absl::Milliseconds(100));
  EXPECT_EQ(status.error_code(), StatusCode::DEADLINE_EXCEEDED);
  EXPECT_LE(absl::Now() - begin, absl::Seconds(5));
  serving_.executor.Release();
  running.join();
  EXPECT_TRUE(Eventually([&] { return !serving_.batcher->state().has_work(); }));
  EXPECT_EQ(serving_.executor.batch_sizes().back(), 1);  // the late ones never ran
}

TEST(EncodingTest, ADelayingQueueTimeoutEndsNoCall) {
  EncodeServing::Options options;
  options.server.calls.queue_timeout = absl::Milliseconds(50);
  options.server.calls.on_queue_timeout = TimeoutAction::kDelay;
  EncodeServing serving(options);
  const auto stub = v1::Encoding::NewStub(serving.NewChannel());
  serving.executor.set_step_time(absl::Milliseconds(150));
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      ClientCall client;
      v1::EmbedResponse response;
      EXPECT_TRUE(stub->Embed(&client, EmbedTexts({std::string(40, 'x')}), &response).ok());
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(EncodingTest, AFullQueueFailsTheCallAndCancelsTheRest) {
  EncodeServing::Options options;
  options.batcher.max_queued = 2;
  EncodeServing serving(options);
  const auto stub = v1::Encoding::NewStub(serving.NewChannel());
  serving.executor.Hold();
  std::thread running([&] {
    ClientCall client;
    v1::EmbedResponse response;
    EXPECT_TRUE(stub->Embed(&client, EmbedTexts({"runs"}), &response).ok());
  });
  ASSERT_TRUE(Eventually([&] { return serving.batcher->state().in_flight == 1; }));
  ClientCall client;
  v1::EmbedResponse response;
  const grpc::Status status = stub->Embed(&client, EmbedTexts({"1", "2", "3"}), &response);
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  EXPECT_THAT(status.error_message(), HasSubstr("max-queue 2"));
  EXPECT_THAT(status.error_message(), HasSubstr("of them are of this call, which has 3"));
  serving.executor.Release();
  running.join();
  EXPECT_TRUE(Eventually([&] { return !serving.batcher->state().has_work(); }));
  for (int32_t size : serving.executor.batch_sizes()) EXPECT_EQ(size, 1);
}

TEST(EncodingTest, OneBadResultFailsItsCallOnly) {
  EncodeServing serving;
  const auto stub = v1::Encoding::NewStub(serving.NewChannel());
  serving.executor.set_not_finite(7);
  v1::EmbedRequest request = EmbedTexts({"good"});
  request.add_inputs()->mutable_tokens()->add_ids(7);
  v1::EmbedResponse response;
  ClientCall first, second;
  EXPECT_EQ(stub->Embed(&first, request, &response).error_code(), StatusCode::INTERNAL);
  EXPECT_TRUE(stub->Embed(&second, EmbedTexts({"good"}), &response).ok());
}

TEST(EncodingTest, HealthAndDrainAreThoseOfTheOthers) {
  EncodeServing::Options options;
  options.open = false;
  EncodeServing serving(options);
  const auto stub = v1::Encoding::NewStub(serving.NewChannel());
  v1::EmbedResponse response;
  ClientCall early, late;
  EXPECT_EQ(stub->Embed(&early, EmbedTexts({"a"}), &response).error_code(),
            StatusCode::UNAVAILABLE);
  ASSERT_TRUE(serving.server->Open(*serving.context).ok());
  EXPECT_TRUE(stub->Embed(&late, EmbedTexts({"a"}), &response).ok());
}

std::vector<float> Logits(const EncodeServing& serving, const std::string& text, int labels) {
  const Encoding encoding = serving.tokenizer.EncodeInput(text, std::nullopt, 0);
  return FakeEncode(encoding.ids, encoding.types, labels);
}

TEST(ClassifyTest, TellsLabelsWithProbabilitiesOrLogits) {
  EncodeServing::Options options;
  options.encoder = Classifier({"no", "maybe", "yes"});
  EncodeServing serving(options);
  const auto stub = v1::Encoding::NewStub(serving.NewChannel());
  v1::ClassifyRequest request;
  request.add_inputs()->set_text("is it?");
  request.set_raw_scores(true);
  v1::ClassifyResponse raw, probable;
  ClientCall first, second;
  ASSERT_TRUE(stub->Classify(&first, request, &raw).ok());
  request.clear_raw_scores();
  ASSERT_TRUE(stub->Classify(&second, request, &probable).ok());
  const std::vector<float> logits = Logits(serving, "is it?", 3);
  double sum = 0;
  for (float logit : logits) sum += std::exp(logit);
  ASSERT_EQ(raw.results(0).scores_size(), 3);
  for (int i = 0; i < 3; ++i) {
    const float logit = logits[static_cast<size_t>(i)];
    EXPECT_EQ(raw.results(0).scores(i).score(), logit);
    EXPECT_NEAR(probable.results(0).scores(i).score(), std::exp(logit) / sum, 1e-6);
  }
  EXPECT_EQ(raw.results(0).scores(2).label(), "yes");
}

TEST(ClassifyTest, SeveralLabelsMayHoldAtOnce) {
  EncodeServing::Options options;
  options.encoder = Classifier({"red", "round"}, /*single_label=*/false);
  EncodeServing serving(options);
  const auto stub = v1::Encoding::NewStub(serving.NewChannel());
  v1::ClassifyRequest request;
  request.add_inputs()->set_text("a ball");
  v1::ClassifyResponse response;
  ClientCall client;
  ASSERT_TRUE(stub->Classify(&client, request, &response).ok());
  const std::vector<float> logits = Logits(serving, "a ball", 2);
  for (int i = 0; i < 2; ++i)
    EXPECT_NEAR(response.results(0).scores(i).score(),
                1 / (1 + std::exp(-logits[static_cast<size_t>(i)])), 1e-6);
}

class ScoreTest : public testing::Test {
 protected:
  ScoreTest() : serving_(Options()), stub_(v1::Encoding::NewStub(serving_.NewChannel())) {
    request_.set_query("which?");
    for (const char* text : {"first", "second", "third", "first"}) request_.add_documents(text);
  }
  static EncodeServing::Options Options() {
    EncodeServing::Options options;
    options.encoder = Classifier({"relevance"});
    return options;
  }
  grpc::Status Score() {
    ClientCall client;
    response_.Clear();
    return stub_->Score(&client, request_, &response_);
  }
  float Logit(int index) const {
    const Encoding encoding =
        serving_.tokenizer.EncodeInput("which?", request_.documents(index), 0);
    return FakeEncode(encoding.ids, encoding.types, 1)[0];
  }

  EncodeServing serving_;
  std::unique_ptr<v1::Encoding::Stub> stub_;
  v1::ScoreRequest request_;
  v1::ScoreResponse response_;
};

TEST_F(ScoreTest, RanksTheBestFirstAndEqualsInOrder) {
  request_.set_raw_scores(true);
  ASSERT_TRUE(Score().ok());
  ASSERT_EQ(response_.results_size(), 4);
  int place_of_first = -1;
  for (int i = 0; i < 4; ++i) {
    const v1::ScoredDocument& document = response_.results(i);
    EXPECT_EQ(document.score(), Logit(static_cast<int>(document.index())));
    EXPECT_GE(response_.results(std::max(i - 1, 0)).score(), document.score());
    if (document.index() == 0) place_of_first = i;
  }
  ASSERT_LT(place_of_first, 3);
  EXPECT_EQ(response_.results(place_of_first + 1).index(), 3u);
}

TEST_F(ScoreTest, TopNAndProbabilities) {
  request_.set_top_n(2);
  ASSERT_TRUE(Score().ok());
  ASSERT_EQ(response_.results_size(), 2);
  const v1::ScoredDocument& best = response_.results(0);
  EXPECT_NEAR(best.score(), 1 / (1 + std::exp(-Logit(static_cast<int>(best.index())))), 1e-6);
}

TEST_F(ScoreTest, BadCallsAreRefusedByField) {
  request_.set_top_n(0);
  EXPECT_THAT(Score().error_message(), HasSubstr("top_n"));
  request_.clear_top_n();
  request_.set_documents(1, "");
  EXPECT_THAT(Score().error_message(), HasSubstr("documents[1] is empty"));
  request_.clear_documents();
  EXPECT_THAT(Score().error_message(), HasSubstr("documents is empty"));
  request_.add_documents("a");
  request_.clear_query();
  EXPECT_THAT(Score().error_message(), HasSubstr("query is empty"));
}

TEST(ScoreKindTest, AClassifierOfSeveralLabelsIsRefusedByName) {
  EncodeServing::Options options;
  options.encoder = Classifier({"no", "yes"});
  EncodeServing serving(options);
  const auto stub = v1::Encoding::NewStub(serving.NewChannel());
  v1::ScoreRequest request;
  request.set_query("q");
  request.add_documents("d");
  v1::ScoreResponse response;
  ClientCall client;
  const grpc::Status status = stub->Score(&client, request, &response);
  EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("hashes"));
}

}  // namespace
}  // namespace penstock
