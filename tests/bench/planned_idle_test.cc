// How long stages idle for which everything else is ideal: what the scheduler's plan costs.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "bench/engine/drive.h"
#include "bench/engine/stage_use.h"
#include "tests/bench/simulated_pipeline.h"

namespace penstock {
namespace {

constexpr int64_t kMs = 1000000;

struct TimedRequest {
  int64_t arrival = 0;  // ns
  int32_t prompt = 0, output = 1;
};

class StepLog final : public SchedulerObserver {
 public:
  void OnStep(const StepReport& report) override { steps.push_back(report); }
  void OnToken(absl::Duration) override {}
  void OnFinish(const FinishReport&) override {}
  void OnPreempt() override {}
  void OnState(const SchedulerState&) override {}
  std::vector<StepReport> steps;
};

// A model like TinyLlama-1.1B on cores that multiply with 260 GFLOP/s and read 20 GB/s each.
class PlannedIdleTest : public ::testing::TestWithParam<int32_t> {
 protected:
  int32_t stages() const { return GetParam(); }

  void Serve(const std::vector<TimedRequest>& requests) {
    SimulatedPipeline pipeline({.kv_blocks = 8192,
                                .kv_block_size = 16,
                                .max_step_tokens = 512,
                                .max_sequences = 64,
                                .max_context = 4096,
                                .vocab = 32000,
                                .context_cost = 9.3e-5f},
                               std::vector<SimulatedPipeline::StageCost>(
                                   static_cast<size_t>(stages()),
                                   {.weights = 96 * kMs / stages(), .row = 7400000 / stages()}));
    StepLog log;
    Scheduler scheduler(options_, pipeline, log);
    times_.assign(requests.size(), {});
    std::vector<std::shared_ptr<TokenStream>> streams;
    for (size_t next = 0; next < requests.size() || scheduler.state().has_work();) {
      for (; next < requests.size() && requests[next].arrival <= pipeline.now(); ++next) {
        streams.push_back(std::make_shared<TokenStream>([&, next] {
          times_[next].insert(times_[next].end(), streams[next]->Read().tokens.size(),
                              pipeline.now());
        }));
        const TimedRequest& request = requests[next];
        ASSERT_TRUE(
            scheduler
                .Submit(MakeRequest(next, 32000, request.prompt, request.output), streams.back())
                .ok());
      }
      if (!scheduler.Step() && next < requests.size()) pipeline.SkipTo(requests[next].arrival);
    }
    steps_ = std::move(log.steps);
    requests_ = requests;
  }

  double Idle() const { return MeasureUse(steps_, WindowOf(steps_)).MeanIdle(); }

  // While as many requests as there are stages, or more, had come and not ended.
  double IdleWithEnough() const {
    std::vector<std::pair<int64_t, int>> changes;
    for (size_t i = 0; i < requests_.size(); ++i) {
      changes.emplace_back(requests_[i].arrival, 1);
      changes.emplace_back(times_[i].back(), -1);
    }
    std::sort(changes.begin(), changes.end());
    double idle = 0, seconds = 0;
    int open = 0;
    int64_t since = 0;
    for (const auto& [time, change] : changes) {
      const Window window{since, time};
      if (open >= stages() && time > since) {
        idle += MeasureUse(steps_, window).MeanIdle() * window.seconds();
        seconds += window.seconds();
      }
      open += change;
      since = time;
    }
    return idle / seconds;
  }

  SchedulerOptions options_;
  std::vector<TimedRequest> requests_;
  std::vector<StepReport> steps_;
  std::vector<std::vector<int64_t>> times_;  // of each request's tokens
};

// In chunks of equal time; the last one may be shorter where a prompt takes more than a step.
TEST_P(PlannedIdleTest, OnePromptCostsItsFill) {
  for (const int32_t prompt : {512, 600, 1024}) {
    Serve({{0, prompt, 1}});
    const double chunks = static_cast<double>(steps_.size());
    EXPECT_GE(chunks, 2 * stages());
    EXPECT_NEAR(Idle(), (stages() - 1) / (chunks + stages() - 1), prompt == 512 ? 0.01 : 0.02)
        << prompt << " tokens";
  }
}

TEST_P(PlannedIdleTest, ManyPromptsFillTheStages) {
  Serve(std::vector<TimedRequest>(8, {0, 512, 1}));
  EXPECT_LE(Idle(), stages() == 2 ? 0.035 : 0.06);
}

TEST_P(PlannedIdleTest, SteadyDecodeIdlesNowhere) {
  Serve(std::vector<TimedRequest>(static_cast<size_t>(8 * stages()), {0, 64, 100}));
  const StepRange steady = FindSteadyDecode(steps_, 8);
  ASSERT_GE(steady.end - steady.begin, static_cast<size_t>(60 * stages()));
  const Window window{steps_[steady.begin + 4].stages.back().end,
                      steps_[steady.end - 5].stages.back().end};
  EXPECT_LE(MeasureUse(steps_, window).MeanIdle(), 0.001);
}

// Groups are made even again as sequences end.
TEST_P(PlannedIdleTest, SequencesOfManyLengths) {
  std::mt19937_64 random(9);
  std::vector<TimedRequest> requests;
  for (int32_t i = 0; i < 8 * stages(); ++i)
    requests.push_back(
        {0, 64 + static_cast<int32_t>(random() % 257), 24 + static_cast<int32_t>(random() % 200)});
  Serve(requests);
  EXPECT_LE(IdleWithEnough(), 0.04);
}

TEST_P(PlannedIdleTest, ArrivalsAtRandom) {
  std::mt19937_64 random(1);
  std::vector<TimedRequest> requests;
  double arrival = 0;
  for (int i = 0; i < 48; ++i) {
    arrival -= std::log((static_cast<double>(random() >> 11) + 0.5) * 0x1p-53) * 0.7e9;
    requests.push_back({static_cast<int64_t>(arrival), 64 + static_cast<int32_t>(random() % 257),
                        24 + static_cast<int32_t>(random() % 25)});
  }
  Serve(requests);
  EXPECT_LE(IdleWithEnough(), stages() == 2 ? 0.03 : 0.10);
}

TEST_P(PlannedIdleTest, ALongPromptAmongDecodes) {
  std::vector<TimedRequest> requests(8, {0, 128, 200});
  requests.push_back({8000 * kMs, 2048, 1});
  Serve(requests);
  EXPECT_LE(IdleWithEnough(), 0.05);
  int64_t longest = 0;
  for (size_t i = 0; i < 8; ++i)
    for (size_t t = 1; t < times_[i].size(); ++t)
      if (times_[i][t] > requests_.back().arrival)
        longest = std::max(longest, times_[i][t] - times_[i][t - 1]);
  const int64_t delay = absl::ToInt64Nanoseconds(options_.max_decode_delay);
  EXPECT_LE(longest, 2 * (delay + 96 * kMs)) << "twice the chunks and the decode steps of a round";
}

INSTANTIATE_TEST_SUITE_P(Stages, PlannedIdleTest, ::testing::Values(2, 4));

}  // namespace
}  // namespace penstock
