// Info, Embed, Tokenize and their streams, over loopback.
#include <cmath>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tei/tei_client.h"

namespace penstock::tei {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;

wire::EmbedRequest Text(const std::string& text) {
  wire::EmbedRequest request;
  request.set_inputs(text);
  return request;
}

std::vector<float> VectorOf(const wire::EmbedResponse& response) {
  return {response.embeddings().begin(), response.embeddings().end()};
}

class TeiEmbedTest : public testing::Test {
 protected:
  Got<wire::EmbedResponse> Embed(const wire::EmbedRequest& request) {
    return Call(*stub_, &wire::Embed::Stub::Embed, request);
  }

  EncodeServing serving_{WithTei<EncodeServing::Options>()};
  std::shared_ptr<grpc::Channel> channel_ = Connect(serving_.server->address());
  std::unique_ptr<wire::Embed::Stub> stub_ = wire::Embed::NewStub(channel_);
  std::unique_ptr<wire::Tokenize::Stub> tokenize_ = wire::Tokenize::NewStub(channel_);
};

TEST_F(TeiEmbedTest, OneVectorAndWhatItTook) {
  const auto got = Embed(Text("h\xC3\xA9"));
  ASSERT_TRUE(got.status.ok()) << got.status.error_message();
  EXPECT_EQ(VectorOf(got.response), Expected(serving_.tokenizer, "h\xC3\xA9", {}, 3));
  const wire::Metadata& metadata = got.response.metadata();
  EXPECT_EQ(metadata.compute_chars(), 2u);
  EXPECT_EQ(metadata.compute_tokens(), 4u);  // three bytes and what begins
  EXPECT_GT(metadata.tokenization_time_ns(), 0u);
  EXPECT_GT(metadata.inference_time_ns(), 0u);
  EXPECT_GE(metadata.total_time_ns(), metadata.queue_time_ns() + metadata.inference_time_ns());
}

TEST_F(TeiEmbedTest, NormalizesWhenAsked) {
  wire::EmbedRequest request = Text("one");
  request.set_normalize(true);
  const std::vector<float> plain = VectorOf(Embed(Text("one")).response);
  const std::vector<float> normal = VectorOf(Embed(request).response);
  double squares = 0;
  for (float v : normal) squares += static_cast<double>(v) * v;
  EXPECT_NEAR(squares, 1, 1e-6);
  EXPECT_NEAR(normal[0] * plain[1], normal[1] * plain[0], 1e-6);  // the same direction
}

TEST_F(TeiEmbedTest, TruncatesOnlyWhenAsked) {
  wire::EmbedRequest request = Text(std::string(99, 'x'));
  const auto refused = Embed(request);
  EXPECT_EQ(refused.status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.status.error_message(), HasSubstr("inputs has 100 tokens; at most 48"));
  request.set_truncate(true);
  const auto got = Embed(request);
  EXPECT_EQ(VectorOf(got.response), Expected(serving_.tokenizer, std::string(99, 'x'), {}, 3, 48));
}

TEST_F(TeiEmbedTest, WhatCannotBeAnsweredIsRefusedByName) {
  const auto empty = Embed(Text(""));
  EXPECT_EQ(empty.status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(empty.status.error_message(), HasSubstr("inputs is empty"));
  const auto raw = Call(*stub_, &wire::Embed::Stub::EmbedRaw, wire::EmbedRawRequest());
  EXPECT_EQ(raw.status.error_code(), StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(raw.status.error_message(), HasSubstr("single tokens"));
  const auto predict = wire::Predict::NewStub(channel_);
  wire::PredictRequest request;
  request.set_inputs("a");
  const auto wrong = Call(*predict, &wire::Predict::Stub::Predict, request);
  EXPECT_EQ(wrong.status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(wrong.status.error_message(), HasSubstr("tei.Predict"));
}

TEST_F(TeiEmbedTest, AStreamAnswersInOrder) {
  ClientCall client;
  const auto stream = stub_->EmbedStream(&client);
  constexpr int kRequests = 600;  // more than are read ahead
  std::thread writer([&] {
    for (int i = 0; i < kRequests; ++i) ASSERT_TRUE(stream->Write(Text(absl::StrCat("t ", i))));
    stream->WritesDone();
  });
  wire::EmbedResponse response;
  int answers = 0;
  for (; stream->Read(&response); ++answers) {
    EXPECT_EQ(VectorOf(response), Expected(serving_.tokenizer, absl::StrCat("t ", answers), {}, 3));
  }
  writer.join();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(answers, kRequests);
}

TEST_F(TeiEmbedTest, AFailureEndsItsStreamAndNoOther) {
  ClientCall good_client, bad_client;
  const auto good = stub_->EmbedStream(&good_client), bad = stub_->EmbedStream(&bad_client);
  ASSERT_TRUE(good->Write(Text("a")));
  ASSERT_TRUE(bad->Write(Text("a")));
  ASSERT_TRUE(bad->Write(Text("")));
  wire::EmbedResponse response;
  ASSERT_TRUE(bad->Read(&response));
  EXPECT_FALSE(bad->Read(&response));
  const grpc::Status status = bad->Finish();
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("inputs is empty"));
  good->WritesDone();
  EXPECT_TRUE(good->Read(&response));
  EXPECT_TRUE(good->Finish().ok());
}

TEST_F(TeiEmbedTest, TokensAreToldWithTheirText) {
  wire::EncodeRequest request;
  request.set_inputs("h\xC3\xA9");
  request.set_add_special_tokens(true);
  const auto got = Call(*tokenize_, &wire::Tokenize::Stub::Tokenize, request);
  ASSERT_TRUE(got.status.ok()) << got.status.error_message();
  ASSERT_EQ(got.response.tokens_size(), 4);
  EXPECT_EQ(got.response.tokens(0).id(), static_cast<uint32_t>(ByteTokenizer::kBos));
  EXPECT_TRUE(got.response.tokens(0).special());
  EXPECT_EQ(got.response.tokens(0).text(), "<s>");
  EXPECT_EQ(got.response.tokens(1).text(), "h");
  EXPECT_FALSE(got.response.tokens(1).special());
  EXPECT_EQ(got.response.tokens(2).id(), 0xC3u);
  EXPECT_EQ(got.response.tokens(2).text(), "\xEF\xBF\xBD");  // half a character is no UTF-8
  request.set_add_special_tokens(false);
  EXPECT_EQ(Call(*tokenize_, &wire::Tokenize::Stub::Tokenize, request).response.tokens_size(), 3);
  request.set_inputs(std::string(100'000, 'x'));
  const auto refused = Call(*tokenize_, &wire::Tokenize::Stub::Tokenize, request);
  EXPECT_EQ(refused.status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.status.error_message(), HasSubstr("inputs"));
}

TEST_F(TeiEmbedTest, TokenizeStreamAnswersInOrder) {
  ClientCall client;
  const auto stream = tokenize_->TokenizeStream(&client);
  wire::EncodeRequest request;
  for (const char* text : {"a", "", "abc"}) {
    request.set_inputs(text);
    ASSERT_TRUE(stream->Write(request));
  }
  stream->WritesDone();
  wire::EncodeResponse response;
  for (int tokens : {1, 0, 3}) {
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.tokens_size(), tokens);
  }
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

Got<wire::InfoResponse> InfoOf(const std::string& address) {
  const auto stub = wire::Info::NewStub(Connect(address));
  return Call(*stub, &wire::Info::Stub::Info, wire::InfoRequest());
}

TEST_F(TeiEmbedTest, InfoTellsModelAndLimits) {
  const wire::InfoResponse info = InfoOf(serving_.server->address()).response;
  EXPECT_EQ(info.version(), PENSTOCK_VERSION);
  EXPECT_EQ(info.model_id(), "hashes");
  EXPECT_EQ(info.model_type(), wire::MODEL_TYPE_EMBEDDING);
  EXPECT_EQ(info.max_input_length(), 48u);
  EXPECT_EQ(info.max_client_batch_size(), 256u);
  EXPECT_EQ(info.tokenization_workers(), 2u);
}

TEST(TeiInfoTest, TypeFollowsTheLabels) {
  EncodeServing reranker(Classifying({"relevance"})), classifier(Classifying({"no", "yes"}));
  EXPECT_EQ(InfoOf(reranker.server->address()).response.model_type(), wire::MODEL_TYPE_RERANKER);
  EXPECT_EQ(InfoOf(classifier.server->address()).response.model_type(),
            wire::MODEL_TYPE_CLASSIFIER);
}

TEST(TeiInfoTest, AGeneratorHasNoneButTokenizes) {
  Serving serving(WithTei<Serving::Options>());
  const auto info = InfoOf(serving.address());
  EXPECT_EQ(info.status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(info.status.error_message(), HasSubstr("generates"));
  const auto embed = wire::Embed::NewStub(Connect(serving.address()));
  EXPECT_EQ(Call(*embed, &wire::Embed::Stub::Embed, Text("a")).status.error_code(),
            StatusCode::FAILED_PRECONDITION);
  const auto tokenize = wire::Tokenize::NewStub(Connect(serving.address()));
  wire::EncodeRequest request;
  request.set_inputs("abc");
  EXPECT_EQ(Call(*tokenize, &wire::Tokenize::Stub::Tokenize, request).response.tokens_size(), 3);
}

TEST(TeiInfoTest, WhileTheModelLoadsCallsAreUnavailable) {
  auto options = WithTei<EncodeServing::Options>();
  options.open = false;
  EncodeServing serving(options);
  EXPECT_EQ(InfoOf(serving.server->address()).status.error_code(), StatusCode::UNAVAILABLE);
  const auto tokenize = wire::Tokenize::NewStub(Connect(serving.server->address()));
  EXPECT_EQ(
      Call(*tokenize, &wire::Tokenize::Stub::Tokenize, wire::EncodeRequest()).status.error_code(),
      StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace penstock::tei
