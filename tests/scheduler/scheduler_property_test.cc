// Random workloads on random machines, turn by turn: whatever is cancelled, preempted, chunked or
// restarted, everybody else gets exactly what it would get alone, and nothing is left behind.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/scheduler/harness.h"

namespace penstock {
namespace {

using ::testing::IsEmpty;

class Workload {
 public:
  explicit Workload(uint32_t seed)
      : random_(seed),
        harness_(RandomInfo(), RandomOptions()),
        with_faults_(Draw(0, 2) == 0),
        with_priorities_(Draw(0, 1) == 0),
        with_deadlines_(Draw(0, 3) == 0) {
    if (!with_faults_) return;
    harness_.executor.set_fault([this](const StepBatch&) {
      return Draw(0, 39) == 0 ? absl::AbortedError("random") : absl::OkStatus();
    });
  }

  // The steps it took.
  int64_t Run() {
    const int32_t total = Draw(10, 60);
    for (int turn = 0; turn < 20000; ++turn) {
      if (static_cast<int32_t>(clients_.size()) < total && Draw(0, 3) == 0) SubmitOne();
      if (Draw(0, 30) == 0) CancelOne();
      const bool progress = harness_.scheduler.Step();
      CheckProgressOfTheOldest();
      if (!progress && static_cast<int32_t>(clients_.size()) == total &&
          !harness_.scheduler.state().has_work())
        break;
    }
    CheckEnds();
    return harness_.executor.steps_run();
  }

 private:
  int32_t Draw(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random_);
  }

  ExecutorInfo RandomInfo() {
    ExecutorInfo info = SmallExecutorInfo();
    info.stages = Draw(1, 5);
    info.max_in_flight = info.stages + Draw(0, 1);
    info.kv_block_size = Draw(1, 9);
    info.max_context = Draw(24, 100);
    info.kv_blocks = (info.max_context * Draw(8, 40) / 8 + info.kv_block_size) / info.kv_block_size;
    info.max_step_tokens = Draw(1, 64);
    info.max_sequences = Draw(1, 12);
    info_ = info;
    return info;
  }
  SchedulerOptions RandomOptions() {
    SchedulerOptions options;
    options.max_queued = 1000;
    options.max_step_tokens = Draw(0, 40);
    options.prefill_chunk = Draw(1, 40);
    options.max_unread_tokens = Draw(0, 1) == 0 ? 1000 : Draw(1, 6);
    options.prefix_cache = Draw(0, 3) != 0;
    if (Draw(0, 4) == 0)
      options.batching = Draw(0, 1) == 0 ? Batching::kStatic : Batching::kStaticPadded;
    batching_ = options.batching;
    return options;
  }

  void SubmitOne() {
    const int32_t output = Draw(1, info_.max_context / 2);
    // Few different prompts, so that they share prefixes of all lengths.
    GenerateRequest request = MakeRequest(Draw(0, 3), Draw(1, info_.max_context - output), output);
    if (Draw(0, 3) == 0)
      request.prompt[static_cast<size_t>(Draw(0, std::ssize(request.prompt) - 1))] = 5;
    request.sampling.seed = clients_.size() / 2;  // and some are the same sequence
    request.sample_index = Draw(0, 2);
    request.cache_salt = Draw(0, 4) == 0 ? 7 : 0;
    request.keep_cached = Draw(0, 4) != 0;
    if (with_priorities_) request.priority = Draw(-2, 2);
    if (with_deadlines_ && Draw(0, 9) == 0)
      (Draw(0, 1) == 0 ? request.deadline : request.start_deadline) =
          absl::Now() + absl::Microseconds(Draw(0, 3000));
    if (Draw(0, 2) == 0) request.sampling.frequency_penalty = 0.5f;
    if (Draw(0, 2) == 0) {
      for (int32_t i = 0; i < 40; ++i) request.stop_tokens.push_back(Draw(0, 999));
      request.min_tokens = Draw(0, output);
    }
    if (Draw(0, 3) == 0) {
      const std::vector<int32_t> full = Client(request).Expected(info_.vocab);
      request.generated.assign(full.begin(),
                               full.begin() + Draw(0, static_cast<int32_t>(full.size()) - 1));
    }
    clients_.push_back(std::make_unique<Client>(request));
    ASSERT_TRUE(harness_.Submit(*clients_.back()).ok());
  }

  void CancelOne() {
    if (!clients_.empty())
      clients_[static_cast<size_t>(Draw(0, static_cast<int32_t>(clients_.size()) - 1))]
          ->stream()
          ->Cancel();
  }

  // The oldest that has not ended gets a token within the turns its prompt, a pipeline of others
  // and the turns of a budget that goes round can take.
  void CheckProgressOfTheOldest() {
    while (oldest_ < clients_.size() && clients_[oldest_]->Poll()) Advance();
    if (oldest_ == clients_.size()) return;
    const size_t tokens = clients_[oldest_]->tokens().size();
    if (tokens != oldest_tokens_) turns_without_ = 0;
    oldest_tokens_ = tokens;
    if (with_faults_ || with_priorities_ || batching_ != Batching::kContinuous) return;
    ASSERT_LT(++turns_without_, 2 * info_.max_context + 4 * info_.stages + 24)
        << "client " << oldest_ << " at token " << tokens;
  }
  void Advance() {
    ++oldest_;
    oldest_tokens_ = 0;
    turns_without_ = 0;
  }

  void CheckEnds() {
    for (size_t i = 0; i < clients_.size(); ++i) {
      Client& client = *clients_[i];
      ASSERT_TRUE(client.Poll()) << "client " << i;
      std::vector<int32_t> expected = client.Expected(info_.vocab);
      if (client.end().status.code() == absl::StatusCode::kCancelled) {
        ASSERT_TRUE(client.stream()->cancelled());
        ASSERT_LE(client.tokens().size(), expected.size());
        expected.resize(client.tokens().size());  // a prefix
      } else if (client.end().status.code() == absl::StatusCode::kDeadlineExceeded) {
        ASSERT_GE(absl::Now(),
                  std::min(client.request().deadline, client.request().start_deadline));
        ASSERT_LE(client.tokens().size(), expected.size());
        expected.resize(client.tokens().size());
      } else if (with_faults_ && client.end().status.code() == absl::StatusCode::kInternal) {
        expected.resize(client.tokens().size());  // blamed three times by chance
      } else {
        ASSERT_TRUE(client.end().status.ok()) << client.end().status;
      }
      EXPECT_EQ(client.tokens(), expected) << "client " << i;
    }
    for (const StepReport& step : harness_.observer.steps()) {
      EXPECT_EQ(step.prefill_sequences > 0, step.prefill_tokens > 0);
      EXPECT_EQ(step.sequences - step.prefill_sequences, step.decode_tokens);
    }
    const SchedulerState state = harness_.scheduler.state();
    EXPECT_EQ(state.kv_blocks_used, 0);
    EXPECT_EQ(state.pending_tokens, 0);
    EXPECT_FALSE(state.has_work());
    EXPECT_EQ(harness_.observer.finishes().size(), clients_.size());
    EXPECT_THAT(harness_.executor.violations(), IsEmpty());
  }

  std::mt19937 random_;
  ExecutorInfo info_;
  Batching batching_ = Batching::kContinuous;
  Harness harness_;
  bool with_faults_, with_priorities_, with_deadlines_;
  std::vector<std::unique_ptr<Client>> clients_;
  size_t oldest_ = 0, oldest_tokens_ = 0;
  int32_t turns_without_ = 0;
};

class SchedulerPropertyTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(SchedulerPropertyTest, EverybodyGetsWhatItGetsAlone) {
  int64_t steps = 0;
  for (uint32_t i = 0; i < 40; ++i) {
    SCOPED_TRACE(testing::Message() << "workload " << GetParam() * 1000 + i);
    steps += Workload(GetParam() * 1000 + i).Run();
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
  RecordProperty("steps", std::to_string(steps));  // scripts/checks/scheduler-properties.sh adds up
}

INSTANTIATE_TEST_SUITE_P(Seeds, SchedulerPropertyTest, ::testing::Range(0u, 8u));

}  // namespace
}  // namespace penstock
