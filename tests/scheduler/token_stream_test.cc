#include "scheduler/token_stream.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace penstock {
namespace {

SampledToken Token(int32_t id) {
  SampledToken token;
  token.token = id;
  return token;
}

TEST(TokenStreamTest, ReadTakesWhatWasWrittenAndWakesPerWrite) {
  int wakes = 0;
  TokenStream stream([&] { ++wakes; });
  stream.Write(Token(4));
  stream.Write(Token(5));
  TokenStream::Chunk chunk = stream.Read();
  ASSERT_EQ(chunk.tokens.size(), 2u);
  EXPECT_EQ(chunk.tokens[1].token, 5);
  EXPECT_FALSE(chunk.closed);
  EXPECT_TRUE(stream.Read().tokens.empty());
  EXPECT_EQ(wakes, 2);
}

TEST(TokenStreamTest, NothingFollowsClose) {
  int wakes = 0;
  TokenStream stream([&] { ++wakes; });
  SequenceTimes times;
  times.preemptions = 3;
  stream.Write(Token(4));
  stream.Close(FinishReason::kStop, absl::OkStatus(), times);
  stream.Write(Token(5));
  stream.Close(FinishReason::kNone, absl::InternalError("late"), {});
  TokenStream::Chunk chunk = stream.Read();
  ASSERT_EQ(chunk.tokens.size(), 1u);
  EXPECT_TRUE(chunk.closed);
  EXPECT_EQ(chunk.reason, FinishReason::kStop);
  EXPECT_TRUE(chunk.status.ok());
  EXPECT_EQ(chunk.times.preemptions, 3);
  EXPECT_EQ(wakes, 2);
  EXPECT_TRUE(stream.Read().closed);  // the end can be read again
}

TEST(TokenStreamTest, WakeMayReadAndDropTheStream) {
  std::shared_ptr<TokenStream> stream;
  int read = 0;
  stream = std::make_shared<TokenStream>(
      [&] { read += static_cast<int>(stream->Read().tokens.size()); });
  stream->Write(Token(1));
  EXPECT_EQ(read, 1);
}

TEST(TokenStreamTest, WriterAndReaderOnTwoThreads) {
  constexpr int kTokens = 20000;
  TokenStream stream(nullptr);
  std::thread writer([&] {
    for (int i = 0; i < kTokens && !stream.cancelled(); ++i) stream.Write(Token(i));
    stream.Close(FinishReason::kLength, absl::OkStatus(), {});
  });
  int next = 0;
  for (bool closed = false; !closed;) {
    TokenStream::Chunk chunk = stream.Read();
    for (const SampledToken& token : chunk.tokens) ASSERT_EQ(token.token, next++);
    closed = chunk.closed;
  }
  writer.join();
  EXPECT_EQ(next, kTokens);
}

}  // namespace
}  // namespace penstock
