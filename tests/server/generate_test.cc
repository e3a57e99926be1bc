#include <numeric>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/server/serving_fixture.h"

namespace penstock {
namespace {

class GenerateTest : public testing::Test {
 protected:
  Answer Ask(const v1::GenerateRequest& request) { return Generate(*stub_, request); }

  Serving serving_;
  std::unique_ptr<v1::Generation::Stub> stub_ = serving_.NewStub();
};

TEST_F(GenerateTest, StreamsTextIdsUsageAndTimings) {
  Answer answer = Ask(TextRequest("ab", 5));
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.text(), "cdefg");
  EXPECT_EQ(answer.token_ids[0], (std::vector<int32_t>{'c', 'd', 'e', 'f', 'g'}));
  EXPECT_EQ(answer.end().finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(answer.end().usage().prompt_tokens(), 3u);  // BOS
  EXPECT_EQ(answer.end().usage().output_tokens(), 5u);
  EXPECT_GT(answer.end().timings().total_seconds(), 0);
  EXPECT_GE(answer.end().timings().total_seconds(),
            answer.end().timings().time_to_first_token_seconds());
  EXPECT_TRUE(answer.messages.front().has_seed());
  for (size_t i = 1; i < answer.messages.size(); ++i) EXPECT_FALSE(answer.messages[i].has_seed());
}

TEST_F(GenerateTest, TheModelsEndIsAStopAndItsTextIsLeftOut) {
  Answer answer = Ask(TextRequest("X", 0));
  EXPECT_EQ(answer.text(), "YZ");
  EXPECT_EQ(answer.token_ids[0], (std::vector<int32_t>{'Y', 'Z', ByteTokenizer::kEos}));
  EXPECT_EQ(answer.end().finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(answer.end().usage().output_tokens(), 3u);
}

TEST_F(GenerateTest, AnEndAtMaxTokensIsAStop) {
  Answer answer = Ask(TextRequest("X", 3));
  EXPECT_EQ(answer.end().finish_reason(), v1::FINISH_REASON_STOP);
}

TEST_F(GenerateTest, IgnoreEosGoesOnAndSpecialTokensShowWhenAskedFor) {
  v1::GenerateRequest request = TextRequest("Y", 4);
  request.mutable_stopping()->set_ignore_eos(true);
  EXPECT_EQ(Ask(request).text(), "Zab");
  request.mutable_output()->set_skip_special_tokens(false);
  EXPECT_EQ(Ask(request).text(), "Z</s>ab");
}

TEST_F(GenerateTest, StopTokensEndTheSampleAndMinTokensHoldThemOff) {
  v1::GenerateRequest request = TextRequest("a", 10);
  request.mutable_stopping()->add_stop_token_ids('d');
  Answer answer = Ask(request);
  EXPECT_EQ(answer.text(), "bc");
  EXPECT_EQ(answer.token_ids[0].back(), 'd');
  request.mutable_stopping()->set_include_stop_in_output(true);
  EXPECT_EQ(Ask(request).text(), "bcd");
  request.mutable_stopping()->set_min_tokens(4);
  EXPECT_EQ(Ask(request).text(), "bcabcd");  // the fake draws 'a' for what is masked
}

TEST_F(GenerateTest, AStopStringAcrossTokensEndsTheSampleAndNeverLeaks) {
  v1::GenerateRequest request = TextRequest("a", 100);
  request.mutable_stopping()->add_stop("xyz");
  request.mutable_stopping()->add_stop("fghij");
  Answer answer = Ask(request);
  ASSERT_TRUE(answer.status.ok());
  EXPECT_EQ(answer.text(), "bcde");
  EXPECT_EQ(answer.end().finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(answer.end().stop_match(), "fghij");
  EXPECT_EQ(answer.end().usage().output_tokens(), 9u);  // b..j, whatever ran ahead
  EXPECT_EQ(answer.token_ids[0].size(), 9u);
  EXPECT_TRUE(Eventually([&] { return serving_.scheduler->state().kv_blocks_used == 0; }));

  request.mutable_stopping()->set_include_stop_in_output(true);
  EXPECT_EQ(Ask(request).text(), "bcdefghij");
}

TEST_F(GenerateTest, HeldBackTextIsReleasedAtTheEnd) {
  v1::GenerateRequest request = TextRequest("a", 3);
  request.mutable_stopping()->add_stop("cdef");
  Answer answer = Ask(request);
  EXPECT_EQ(answer.text(), "bcd");
  EXPECT_EQ(answer.end().finish_reason(), v1::FINISH_REASON_LENGTH);
}

TEST_F(GenerateTest, OnlyWholeCharactersLeave) {
  v1::GenerateRequest request;
  request.mutable_tokens()->add_ids(0x96);
  request.mutable_stopping()->set_max_tokens(6);
  Answer answer = Ask(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.text(), "\xE4\xB8\x96\xE4\xB8\x96");
  for (const v1::GenerateResponse& message : answer.messages)
    EXPECT_EQ(message.text().size() % 3, 0u);

  request.mutable_stopping()->set_max_tokens(5);  // ends inside a character
  EXPECT_EQ(Ask(request).text(), "\xE4\xB8\x96\xEF\xBF\xBD");
}

TEST_F(GenerateTest, TokenIdsOnly) {
  v1::GenerateRequest request = TextRequest("a", 3);
  request.mutable_output()->set_token_ids_only(true);
  Answer answer = Ask(request);
  EXPECT_EQ(answer.text(), "");
  EXPECT_EQ(answer.token_ids[0].size(), 3u);
}

TEST_F(GenerateTest, LogprobsCarryBytesEvenOfPartsOfCharacters) {
  v1::GenerateRequest request = TextRequest("a", 3);
  request.mutable_output()->set_logprobs(2);
  Answer answer = Ask(request);
  size_t infos = 0;
  for (const v1::GenerateResponse& message : answer.messages) {
    ASSERT_EQ(message.infos_size(), message.token_ids_size());
    for (const v1::TokenInfo& info : message.infos()) {
      ++infos;
      EXPECT_EQ(info.logprob(), -0.5f);
      ASSERT_EQ(info.top_size(), 2);
      EXPECT_EQ(info.top(0).text(), "\xE4");
      EXPECT_EQ(info.top(1).logprob(), -2.0f);
    }
  }
  EXPECT_EQ(infos, 3u);
}

TEST_F(GenerateTest, SamplesAreSequencesWithTheirOwnIndex) {
  v1::GenerateRequest request = TextRequest("a", 4);
  request.set_n(3);
  request.mutable_sampling()->set_seed(~uint64_t{0});
  Answer answer = Ask(request);
  ASSERT_TRUE(answer.status.ok());
  ASSERT_EQ(answer.last.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(answer.texts[i], "bcde");
    EXPECT_EQ(answer.last[i].usage().output_tokens(), 4u);
  }
  std::set<uint32_t> seeded;
  for (const v1::GenerateResponse& message : answer.messages)
    if (message.has_seed()) {
      EXPECT_EQ(message.seed(), ~uint64_t{0});
      EXPECT_TRUE(seeded.insert(message.index()).second);
    }
  EXPECT_EQ(seeded.size(), 3u);
  std::set<int32_t> indices;
  for (const SlotAssignment& assignment : serving_.executor.assignments())
    if (assignment.params.seed == ~uint64_t{0}) indices.insert(assignment.sample_index);
  EXPECT_EQ(indices, (std::set<int32_t>{0, 1, 2}));
}

TEST_F(GenerateTest, DrawnSeedsDiffer) {
  const uint64_t first = Ask(TextRequest("a", 1)).messages.front().seed();
  EXPECT_NE(first, Ask(TextRequest("a", 1)).messages.front().seed());
}

// The text and ids behind each possible interruption are those of the uninterrupted stream.
void ExpectResumes(v1::Generation::Stub& stub, const v1::GenerateRequest& request) {
  Answer whole = Generate(stub, request);
  ASSERT_TRUE(whole.status.ok()) << whole.status.error_message();
  std::vector<int32_t> held;
  std::string text;
  for (const v1::GenerateResponse& message : whole.messages) {
    held.insert(held.end(), message.token_ids().begin(), message.token_ids().end());
    text += message.text();
    if (message.finish_reason() != v1::FINISH_REASON_UNSPECIFIED) break;
    v1::GenerateRequest rest = request;
    rest.mutable_sampling()->set_seed(whole.messages[0].seed());
    rest.mutable_resume_tokens()->Assign(held.begin(), held.end());
    Answer answer = Generate(stub, rest);
    ASSERT_TRUE(answer.status.ok()) << held.size() << ": " << answer.status.error_message();
    EXPECT_EQ(text + answer.text(), whole.text()) << held.size();
    std::vector<int32_t> ids = held;
    ids.insert(ids.end(), answer.token_ids[0].begin(), answer.token_ids[0].end());
    EXPECT_EQ(ids, whole.token_ids[0]);
    EXPECT_EQ(answer.end().finish_reason(), whole.end().finish_reason());
    EXPECT_EQ(answer.end().stop_match(), whole.end().stop_match());
    EXPECT_EQ(answer.end().usage().output_tokens(), whole.end().usage().output_tokens());
  }
}

TEST_F(GenerateTest, ResumedStreamsEqualUninterruptedOnes) {
  serving_.executor.set_step_delay(absl::Milliseconds(2));  // so that messages are many
  v1::GenerateRequest request = TextRequest("a", 12);
  ExpectResumes(*stub_, request);
  request.mutable_stopping()->add_stop("hijk");
  ExpectResumes(*stub_, request);
  v1::GenerateRequest characters;
  characters.mutable_tokens()->add_ids(0x96);
  characters.mutable_stopping()->set_max_tokens(8);
  ExpectResumes(*stub_, characters);
  ExpectResumes(*stub_, TextRequest("U", 0));
}

TEST_F(GenerateTest, ResumingBehindTheEndIsTheEnd) {
  v1::GenerateRequest request = TextRequest("X", 20);
  request.mutable_sampling()->set_seed(1);
  for (int32_t token : {int32_t{'Y'}, int32_t{'Z'}, ByteTokenizer::kEos})
    request.add_resume_tokens(token);
  Answer answer = Ask(request);
  ASSERT_TRUE(answer.status.ok());
  EXPECT_EQ(answer.text(), "");
  EXPECT_EQ(answer.end().finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(answer.end().usage().output_tokens(), 3u);

  request = TextRequest("a", 20);
  request.mutable_sampling()->set_seed(1);
  request.mutable_stopping()->add_stop("cd");
  for (int32_t token : {'b', 'c', 'd'}) request.add_resume_tokens(token);
  answer = Ask(request);
  EXPECT_EQ(answer.text(), "");
  EXPECT_EQ(answer.end().stop_match(), "cd");
}

TEST_F(GenerateTest, BadCallsAreRefusedAndTheNextWorks) {
  v1::GenerateRequest bad = TextRequest("a", 3);
  bad.mutable_stopping()->add_stop_token_ids(ByteTokenizer::kVocab + 1);
  EXPECT_EQ(Ask(bad).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  bad = TextRequest("a", 3);
  bad.set_model("other");
  EXPECT_EQ(Ask(bad).status.error_code(), grpc::StatusCode::NOT_FOUND);
  bad = TextRequest("", 3);
  EXPECT_EQ(Ask(bad).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  bad = TextRequest(std::string(5 << 20, 'x'), 3);  // over gRPC's default, under ours
  EXPECT_EQ(Ask(bad).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Ask(TextRequest("a", 3)).text(), "bcd");
}

TEST_F(GenerateTest, ARequestOverTheReceiveLimitNamesTheLimit) {
  const Answer answer = Ask(TextRequest(std::string(65 << 20, 'x'), 3));
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(answer.status.error_message().find(absl::StrCat(64 << 20)), std::string::npos)
      << answer.status.error_message();
  EXPECT_EQ(Ask(TextRequest("a", 3)).text(), "bcd");
}

TEST(GenerateFailureTest, AFailureInMidStreamIsNotAnEnd) {
  Serving::Options options;
  options.scheduler.recovery_timeout = absl::Milliseconds(200);
  Serving serving(options);
  const auto stub = serving.NewStub();
  serving.executor.set_step_delay(absl::Milliseconds(5));
  grpc::ClientContext client;
  const v1::GenerateRequest request = TextRequest("a", 100);
  const auto reader = stub->Generate(&client, request);
  v1::GenerateResponse message;
  ASSERT_TRUE(reader->Read(&message));
  serving.executor.Lose(absl::UnavailableError("rank 1 is gone"));
  while (reader->Read(&message)) EXPECT_EQ(message.finish_reason(), v1::FINISH_REASON_UNSPECIFIED);
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
  EXPECT_TRUE(Eventually([&] { return serving.Health() == "NOT_SERVING"; }));
}

}  // namespace
}  // namespace penstock
