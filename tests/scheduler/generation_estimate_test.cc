#include "scheduler/generation_estimate.h"

#include <gtest/gtest.h>

#include "tests/scheduler/harness.h"

namespace penstock {
namespace {

constexpr absl::Duration kNothing = absl::ZeroDuration();

class GenerationEstimateTest : public testing::Test {
 protected:
  // `count` steps one after the other; every `per_departure`th ends a sequence.
  void Run(int count, absl::Duration step, int32_t prefill_tokens, int per_departure) {
    for (int i = 1; i <= count; ++i) {
      StepReport report{.prefill_tokens = prefill_tokens, .decode_tokens = 4};
      report.launched = now_;
      report.committed = now_ += step;
      estimate_.OnStep(report);
      estimate_.OnToken(step);
      if (i % per_departure != 0) continue;
      FinishReport finish;
      finish.times.first_scheduled = now_;
      estimate_.OnFinish(finish);
    }
  }
  static void ExpectNear(absl::Duration value, absl::Duration expected) {
    EXPECT_GT(value, 0.9 * expected) << value;
    EXPECT_LT(value, 1.1 * expected) << value;
  }

  absl::Time now_ = absl::UnixEpoch();
  RecordingObserver observer_;
  GenerationEstimate estimate_{observer_};
};

TEST_F(GenerationEstimateTest, NothingIsRefusedBeforeAnythingIsKnown) {
  GenerateRequest request = MakeRequest(1, 100, 10);
  request.deadline = now_ + absl::Nanoseconds(1);
  request.start_deadline = request.deadline;
  EXPECT_TRUE(estimate_.CheckInTime(request, {.waiting = 1000}, now_).ok());
  Run(9, absl::Milliseconds(100), 10, 1);  // not yet a second
  request.deadline = request.start_deadline = now_ + absl::Nanoseconds(1);
  EXPECT_TRUE(estimate_.CheckInTime(request, {.waiting = 1000}, now_).ok());
}

TEST_F(GenerationEstimateTest, AQueueMovesAtTheRateOfDepartures) {
  Run(200, absl::Milliseconds(100), 0, 5);  // two departures per second
  EXPECT_EQ(estimate_.ToStart({.running = 8}), kNothing);
  ExpectNear(estimate_.ToStart({.waiting = 10}), absl::Seconds(5));
  ExpectNear(estimate_.BetweenTokens(), absl::Milliseconds(100));
}

TEST_F(GenerationEstimateTest, APromptTakesItsTimeAfterTheQueue) {
  Run(100, absl::Milliseconds(100), 50, 5);  // 500 prompt tokens per second
  ExpectNear(estimate_.ToFirstToken({}, 1000), absl::Seconds(2));
  ExpectNear(estimate_.ToFirstToken({.waiting = 10}, 1000), absl::Seconds(7));
}

TEST_F(GenerationEstimateTest, TheRecentPastCounts) {
  Run(1000, absl::Milliseconds(100), 0, 5);
  now_ += absl::Hours(1);                     // idle time is no work
  Run(6000, absl::Milliseconds(100), 0, 10);  // half as fast, for ten minutes
  ExpectNear(estimate_.ToStart({.waiting = 10}), absl::Seconds(10));
}

TEST_F(GenerationEstimateTest, StepsInFlightAreNotCountedTwice) {
  for (int i = 0; i < 100; ++i) {  // each takes 200 ms, one is committed every 100 ms
    StepReport report{.prefill_tokens = 10};
    report.launched = now_ - absl::Milliseconds(100);
    report.committed = now_ += absl::Milliseconds(100);
    estimate_.OnStep(report);
  }
  ExpectNear(estimate_.ToFirstToken({}, 100), absl::Seconds(1));
}

TEST_F(GenerationEstimateTest, HopelessRequestsAreRefusedWithTheEstimate) {
  Run(200, absl::Milliseconds(100), 50, 5);
  const SchedulerState busy{.waiting = 10};  // about 5 s
  GenerateRequest request = MakeRequest(1, 100, 1000);
  EXPECT_TRUE(estimate_.CheckInTime(request, busy, now_).ok());
  request.start_deadline = now_ + absl::Seconds(4);
  const absl::Status status = estimate_.CheckInTime(request, busy, now_);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("queue timeout is in 4s"), std::string::npos) << status;
  request.start_deadline = now_ + absl::Seconds(6);
  EXPECT_TRUE(estimate_.CheckInTime(request, busy, now_).ok());

  request.deadline = now_ + absl::Seconds(6);  // max_tokens may never be needed
  EXPECT_TRUE(estimate_.CheckInTime(request, busy, now_).ok());
  request.min_tokens = 20;  // two seconds more
  EXPECT_EQ(estimate_.CheckInTime(request, busy, now_).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(estimate_.CheckInTime(request, {}, now_).ok());
}

TEST_F(GenerationEstimateTest, TellsTheNextObserver) {
  Run(10, absl::Milliseconds(1), 5, 5);
  EXPECT_EQ(observer_.steps().size(), 10u);
  EXPECT_EQ(observer_.finishes().size(), 2u);
  EXPECT_EQ(observer_.tokens, 10);
  estimate_.OnPreempt();
  EXPECT_EQ(observer_.preemptions, 1);
  estimate_.OnState({.healthy = false});
  EXPECT_TRUE(observer_.was_unhealthy);
}

}  // namespace
}  // namespace penstock
