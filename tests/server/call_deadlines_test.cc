#include "server/call_deadlines.h"

#include "gtest/gtest.h"

namespace penstock {
namespace {

constexpr absl::Time kStart = absl::UnixEpoch();
constexpr absl::Time kNever = absl::InfiniteFuture();

absl::Time At(double seconds) { return kStart + absl::Seconds(seconds); }

CallBounds With(absl::Duration CallBounds::*bound, absl::Duration value) {
  CallBounds bounds;
  bounds.*bound = value;
  return bounds;
}

std::string Why(const CallDeadlines& deadlines, double seconds, CallPhase phase,
                bool writing = false) {
  const absl::Status status = deadlines.Check(At(seconds), phase, writing);
  EXPECT_TRUE(status.ok() || absl::IsDeadlineExceeded(status)) << status;
  return std::string(status.message());
}

TEST(CallDeadlinesTest, WithoutBoundsNothingPasses) {
  CallDeadlines deadlines(kStart, kNever, {});
  EXPECT_EQ(deadlines.deadline(), kNever);
  EXPECT_EQ(deadlines.start_deadline(), kNever);
  EXPECT_EQ(deadlines.Next(CallPhase::kQueue, false), kNever);
  EXPECT_EQ(Why(deadlines, 1e9, CallPhase::kQueue), "");
}

TEST(CallDeadlinesTest, TheSmallerDeadlineCountsAndIsNamed) {
  const CallBounds bounds = With(&CallBounds::request_timeout, absl::Seconds(5));
  CallDeadlines none(kStart, kNever, bounds), later(kStart, At(9), bounds),
      sooner(kStart, At(3), bounds);
  EXPECT_EQ(none.deadline(), At(5));
  EXPECT_EQ(later.deadline(), At(5));
  EXPECT_EQ(sooner.deadline(), At(3));
  EXPECT_EQ(Why(sooner, 2.999, CallPhase::kDecode), "");
  EXPECT_EQ(Why(sooner, 3, CallPhase::kDecode), "the client's deadline passed in decode");
  EXPECT_EQ(Why(none, 5, CallPhase::kPrefill),
            "the server's request timeout of 5s passed in prefill");
  EXPECT_EQ(Why(later, 5, CallPhase::kWrite),
            "the server's request timeout of 5s passed in the write to the client");
  EXPECT_EQ(Why(later, 5, CallPhase::kQueue),
            "the server's request timeout of 5s passed in the queue");
}

TEST(CallDeadlinesTest, TheQueueTimeoutCountsInTheQueueOnly) {
  CallDeadlines deadlines(kStart, At(100), With(&CallBounds::queue_timeout, absl::Seconds(2)));
  EXPECT_EQ(deadlines.Next(CallPhase::kQueue, false), At(2));
  EXPECT_EQ(deadlines.Next(CallPhase::kPrefill, false), At(100));
  EXPECT_EQ(Why(deadlines, 2, CallPhase::kPrefill), "");
  EXPECT_EQ(Why(deadlines, 2, CallPhase::kQueue), "the queue timeout of 2s passed in the queue");
}

TEST(CallDeadlinesTest, ARequestSetsItsOwnQueueTimeoutWhateverTheDefaultIs) {
  for (const double by_default : {0.0, 2.0}) {
    CallDeadlines deadlines(kStart, kNever,
                            With(&CallBounds::queue_timeout, absl::Seconds(by_default)));
    deadlines.SetQueueTimeout(absl::Seconds(7));
    EXPECT_EQ(deadlines.start_deadline(), At(7));
    deadlines.SetQueueTimeout(absl::ZeroDuration());
    EXPECT_EQ(deadlines.start_deadline(), kNever);
    deadlines.SetQueueTimeout(std::nullopt);
    EXPECT_EQ(deadlines.start_deadline(), by_default > 0 ? At(by_default) : kNever);
  }
}

TEST(CallDeadlinesTest, WithoutOverrideItCanOnlyBeShorter) {
  CallBounds bounds = With(&CallBounds::queue_timeout, absl::Seconds(2));
  bounds.queue_timeout_override = false;
  CallDeadlines deadlines(kStart, kNever, bounds);
  deadlines.SetQueueTimeout(absl::Seconds(7));
  EXPECT_EQ(deadlines.start_deadline(), At(2));
  deadlines.SetQueueTimeout(absl::ZeroDuration());
  EXPECT_EQ(deadlines.start_deadline(), At(2));
  deadlines.SetQueueTimeout(absl::Seconds(1));
  EXPECT_EQ(deadlines.start_deadline(), At(1));
}

TEST(CallDeadlinesTest, AClientThatTakesNothingIsGivenUp) {
  CallDeadlines deadlines(kStart, kNever, With(&CallBounds::client_stall, absl::Seconds(4)));
  deadlines.OnWriteBegin(At(10));
  EXPECT_EQ(deadlines.Next(CallPhase::kDecode, true), At(14));
  EXPECT_EQ(deadlines.Next(CallPhase::kDecode, false), kNever);
  EXPECT_EQ(Why(deadlines, 13, CallPhase::kDecode, true), "");
  EXPECT_EQ(Why(deadlines, 14, CallPhase::kDecode, false), "");
  EXPECT_EQ(Why(deadlines, 14, CallPhase::kDecode, true),
            "the client stall timeout of 4s passed in the write to the client: it took nothing");
}

}  // namespace
}  // namespace penstock
