#include "server/trace_hub.h"

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace penstock {
namespace {

StepReport Step(int64_t step, absl::Time launched, int sequences = 1) {
  StepReport report;
  report.step = step;
  report.launched = launched;
  report.committed = launched + absl::Milliseconds(1);
  report.shares.resize(static_cast<size_t>(sequences));
  return report;
}

TEST(TraceHubTest, TellsEveryTracerAndNobodyAfterwards) {
  TraceHub hub;
  EXPECT_FALSE(hub.tracing());
  const auto first = std::make_shared<TraceRecording>(100);
  const auto second = std::make_shared<TraceRecording>(100);
  hub.Add(first);
  hub.Add(second);
  EXPECT_EQ(hub.tracers(), 2);
  hub.OnStep(1, Step(7, absl::Now()));
  hub.Remove(first);
  hub.OnStep(1, Step(8, absl::Now()));
  hub.Remove(second);
  EXPECT_FALSE(hub.tracing());
  hub.OnStep(1, Step(9, absl::Now()));

  EXPECT_EQ(first->Take(100).steps.size(), 1u);
  const TraceRecording::Batch batch = second->Take(100);
  ASSERT_EQ(batch.steps.size(), 2u);
  EXPECT_EQ(batch.steps[0]->report.step, 7);
  EXPECT_EQ(batch.steps[1]->report.step, 8);
  EXPECT_EQ(batch.steps[0]->replica, 1);
  EXPECT_FALSE(batch.more);
}

TEST(TraceHubTest, ABatchIsAnEncodeStep) {
  TraceHub hub;
  const auto recording = std::make_shared<TraceRecording>(100);
  hub.Add(recording);
  BatchReport report;
  report.step = 3;
  report.requests = 2;
  report.tokens = 40;
  report.stages = {{10, 20, 1, 2}};
  report.shares = {{5, 15, 15, true}, {6, 25, 25, true}};
  hub.OnBatch(0, report);
  const TraceRecording::Batch batch = recording->Take(100);
  ASSERT_EQ(batch.steps.size(), 1u);
  EXPECT_TRUE(batch.steps[0]->encode);
  EXPECT_EQ(batch.steps[0]->report.prefill_tokens, 40);
  EXPECT_EQ(batch.steps[0]->report.sequences, 2);
  EXPECT_EQ(batch.steps[0]->report.shares.size(), 2u);
  EXPECT_EQ(batch.steps[0]->report.stages.size(), 1u);
}

TEST(TraceRecordingTest, ATooSlowReaderLosesTheNewestAndIsToldHowMany) {
  TraceHub hub;
  const auto recording = std::make_shared<TraceRecording>(10);
  hub.Add(recording);
  for (int64_t i = 0; i < 5; ++i) hub.OnStep(0, Step(i, absl::Now(), 2));  // three rows each
  hub.OnState(0, {});                                                      // one more fits
  hub.OnState(0, {});
  TraceRecording::Batch batch = recording->Take(100);
  ASSERT_EQ(batch.steps.size(), 3u);
  EXPECT_EQ(batch.steps[2]->report.step, 2);
  EXPECT_EQ(batch.states.size(), 1u);
  EXPECT_EQ(batch.lost_steps, 2);
  EXPECT_EQ(batch.lost_states, 1);

  hub.OnStep(0, Step(9, absl::Now(), 2));  // there is room again
  batch = recording->Take(100);
  ASSERT_EQ(batch.steps.size(), 1u);
  EXPECT_EQ(batch.lost_steps, 0);
}

TEST(TraceRecordingTest, IsTakenInPieces) {
  TraceRecording recording(1000);
  for (int64_t i = 0; i < 4; ++i)
    recording.Add(
        std::make_shared<const TracedStep>(TracedStep{0, false, Step(i, absl::Now(), 9)}));
  recording.Add(TracedState{});
  TraceRecording::Batch batch = recording.Take(15);
  EXPECT_EQ(batch.steps.size(), 2u);
  EXPECT_TRUE(batch.more);
  batch = recording.Take(15);
  EXPECT_EQ(batch.steps.size(), 2u);
  EXPECT_TRUE(batch.more);  // the state
  batch = recording.Take(15);
  EXPECT_EQ(batch.states.size(), 1u);
  EXPECT_FALSE(batch.more);
}

TEST(TraceRecordingTest, WaitsForStepsInFlightAtTheEndAndTakesNoLaterOnes) {
  TraceRecording recording(1000);
  const absl::Time begin = absl::Now(), end = begin + absl::Seconds(1);
  const auto add = [&](int64_t step, absl::Time launched, int replica) {
    recording.Add(
        std::make_shared<const TracedStep>(TracedStep{replica, false, Step(step, launched)}));
  };
  EXPECT_TRUE(recording.settled());  // nothing was ever in flight
  recording.Add(TracedState{0, begin, {.in_flight = 2}});
  recording.Add(TracedState{1, begin, {.in_flight = 1}});
  recording.SetEnd(end);
  EXPECT_FALSE(recording.settled());
  add(1, end - absl::Milliseconds(10), 0);
  add(1, end - absl::Milliseconds(10), 1);
  EXPECT_FALSE(recording.settled());  // each replica may have more
  recording.Add(TracedState{1, end + absl::Milliseconds(5), {.in_flight = 0}});
  EXPECT_FALSE(recording.settled());
  add(2, end, 0);
  EXPECT_TRUE(recording.settled());
  const TraceRecording::Batch batch = recording.Take(100);
  EXPECT_EQ(batch.steps.size(), 2u);
  EXPECT_EQ(batch.states.size(), 2u);
  EXPECT_EQ(batch.lost_steps, 0);
}

}  // namespace
}  // namespace penstock
