#include "server/encode_inputs.h"

#include <fstream>
#include <iterator>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace penstock {
namespace {

// With a tokenizer for which blanks are nothing.
class EncodeInputsTest : public testing::Test {
 protected:
  EncodeInputsTest() {
    info_.max_context = info_.max_step_tokens = 16;
    info_.vocab = tokenizer_->vocab_size();
    info_.token_types = 2;
  }
  absl::Status Add(bool truncate, const std::string& text,
                   std::optional<absl::string_view> pair = std::nullopt) {
    task_ = {};
    const ServedModel model{"words", *tokenizer_, info_, {}, limits_, EncoderSpec()};
    return EncodeInputs(model, truncate, &task_).AddText("text", text, pair);
  }
  std::vector<int32_t> Ids(absl::string_view text) const {
    return tokenizer_->EncodeInput(text, std::nullopt, 0).ids;
  }

  static std::unique_ptr<Tokenizer> LoadTokenizer() {
    std::ifstream file(PENSTOCK_TEST_DATA "/tokenizers/bert.json");
    return *Tokenizer::FromJson(std::string{std::istreambuf_iterator<char>(file), {}});
  }

  const std::unique_ptr<Tokenizer> tokenizer_ = LoadTokenizer();
  ExecutorInfo info_;
  RequestLimits limits_;
  EncodeTask task_;
};

TEST_F(EncodeInputsTest, TokensCountAndNotBytes) {
  const std::string blanks(20000, ' ');
  for (bool truncate : {false, true})
    for (const std::string& text : {blanks + "hello", "hello" + blanks}) {
      const absl::Status status = Add(truncate, text);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(task_.requests[0].tokens, Ids("hello"));
      EXPECT_FALSE(task_.truncated[0]);
    }
  ASSERT_TRUE(Add(true, "hello", blanks + "hello").ok());
  EXPECT_FALSE(task_.truncated[0]);
}

TEST_F(EncodeInputsTest, WhatHasTooManyTokensIsRefusedOrCut) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "a ";
  EXPECT_THAT(std::string(Add(false, text).message()),
              testing::HasSubstr("text has 1002 tokens; at most 16"));
  ASSERT_TRUE(Add(true, text).ok());
  EXPECT_TRUE(task_.truncated[0]);
  EXPECT_EQ(task_.requests[0].tokens.size(), 16u);
}

TEST_F(EncodeInputsTest, TheTextOfACallIsBounded) {
  limits_.max_encode_bytes = 10;
  EXPECT_TRUE(Add(true, "12345", "67890").ok());
  EXPECT_THAT(std::string(Add(true, "12345", "678901").message()),
              testing::HasSubstr("11 bytes of text; at most 10"));
}

}  // namespace
}  // namespace penstock
