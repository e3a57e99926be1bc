// Random workloads of every kind, checked against what must always hold.

#include <algorithm>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/batcher/harness.h"

namespace penstock {
namespace {

constexpr int kWidth = 3;

class RandomWorkload {
 public:
  RandomWorkload(uint32_t seed, bool failures)
      : random_(seed), failures_(failures), options_(RandomOptions()), info_(RandomInfo()) {
    timeouts_ = Chance(3);
    delays_ = timeouts_ && Chance(2);
    harness_ = std::make_unique<BatcherHarness>(options_, info_);
    harness_->executor.on_launch = [this](const StepBatch& batch) { CheckBatch(batch); };
    harness_->executor.on_wait = [this](const StepBatch&) { return RunStep(); };
  }

  void Run(int turns) {
    for (; turns > 0 && !testing::Test::HasFailure(); --turns) {
      SubmitSome(Uniform(0, 3));
      if (Chance(4)) CancelOne();
      harness_->now += absl::Microseconds(Uniform(0, 1500));
      Turn();
    }
    Finish();
  }
  int64_t steps() const { return steps_; }
  int64_t cancelled() const { return cancelled_; }

 private:
  struct Entry {
    EncodeRequest request;
    std::shared_ptr<EncodeReply> reply;
    std::optional<EncodeReply::Result> result;
    bool launched = false, cancelled = false;
  };

  int Uniform(int low, int high) { return std::uniform_int_distribution(low, high)(random_); }
  bool Chance(int of) { return Uniform(1, of) == 1; }

  BatcherOptions RandomOptions() {
    BatcherOptions options;
    options.max_batch = Uniform(1, 8);
    options.max_batch_tokens = Uniform(8, 64);
    options.max_queue_delay =
        Chance(2) ? absl::ZeroDuration() : absl::Microseconds(Uniform(1, 3000));
    if (Chance(3)) options.preferred_sizes = {Uniform(1, 4), Uniform(2, 8)};
    options.max_queued = Chance(4) ? Uniform(0, 20) : 1000;
    options.ageing = absl::Milliseconds(Uniform(0, 5));
    options.preserve_order = Chance(3);
    options.recovery_timeout = absl::Hours(1);
    return options;
  }
  ExecutorInfo RandomInfo() {
    ExecutorInfo info = SmallEncoderInfo();
    info.stages = Uniform(1, 4);
    info.max_in_flight = info.stages + 1;
    return info;
  }

  void SubmitSome(int count) {
    for (; count > 0; --count) {
      auto entry = std::make_unique<Entry>();
      const size_t index = entries_.size();
      const int length = Chance(3) ? Uniform(1, 48) : Uniform(1, 8);
      entry->request = MakeInput(static_cast<int32_t>(index), length);
      if (Chance(2))
        for (int i = 0; i < length; ++i) entry->request.types.push_back(Uniform(0, 1));
      entry->request.priority = Uniform(-2, 2);
      entry->request.arrival = harness_->now;
      if (timeouts_ && Chance(3)) SetTimes(entry->request);
      entry->reply = std::make_shared<EncodeReply>([this, index] { OnClosed(index); });
      entries_.push_back(std::move(entry));
      const Entry& kept = *entries_.back();
      // In a turn the hook submits too; the reply may close before Submit has returned.
      const absl::Status status = harness_->batcher.Submit(kept.request, kept.reply);
      if (status.ok()) {
        ++accepted_;
        open_.push_back(index);
      } else {
        EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
      }
    }
  }
  void SetTimes(EncodeRequest& request) {
    request.start_deadline = harness_->now + absl::Microseconds(Uniform(1, 6000));
    if (Chance(2)) request.deadline = harness_->now + absl::Microseconds(Uniform(1, 9000));
    if (delays_ && Chance(2)) request.on_timeout = TimeoutAction::kDelay;
  }
  void CancelOne() {
    if (open_.empty()) return;
    Entry& entry =
        *entries_[open_[static_cast<size_t>(Uniform(0, static_cast<int>(open_.size()) - 1))]];
    entry.reply->Cancel();
    entry.cancelled = true;
  }

  void Turn() {
    const bool progress = harness_->batcher.Step();
    std::erase_if(open_, [this](size_t i) { return entries_[i]->result.has_value(); });
    if (!progress) CheckNothingIsHeldTooLong();
  }

  // While a step runs, time passes and more comes in; it may fail.
  absl::Status RunStep() {
    ++steps_;
    harness_->now += absl::Microseconds(Uniform(0, 1500));
    if (Chance(2)) SubmitSome(Uniform(0, 2));
    if (failures_ && Chance(20)) {
      ++failed_steps_;
      if (Chance(3)) harness_->executor.set_failing_restarts(Uniform(1, 3));
      return absl::InternalError("a random failure");
    }
    return absl::OkStatus();
  }

  void CheckBatch(const StepBatch& batch) {
    const auto seqs = static_cast<int>(batch.seqs());
    EXPECT_LE(seqs, options_.max_batch);
    EXPECT_TRUE(seqs == 1 || static_cast<int>(batch.tokens.size()) <= options_.max_batch_tokens);
    CheckHead(batch);
    for (int i = 0; i < seqs; ++i) {
      Entry& entry = *entries_[Index(batch, i)];
      EXPECT_FALSE(entry.launched && failed_steps_ == 0) << "runs twice";
      EXPECT_FALSE(entry.result.has_value()) << "has ended";
      entry.launched = true;
    }
  }
  static size_t Index(const StepBatch& batch, int sequence) {
    const auto begin = static_cast<size_t>(batch.seq_begin[static_cast<size_t>(sequence)]);
    return static_cast<size_t>(batch.tokens[begin]);
  }
  // The one whose turn it is is in every batch, so everybody's turn comes.
  void CheckHead(const StepBatch& batch) {
    if (failed_steps_ > 0 || delays_) return;
    const absl::Duration level =
        options_.ageing > absl::ZeroDuration() ? options_.ageing : absl::Hours(24 * 365);
    const auto key = [&](size_t index) {
      const EncodeRequest& request = entries_[index]->request;
      return request.arrival +
             (options_.preserve_order ? absl::ZeroDuration() : request.priority * level);
    };
    const size_t head = Index(batch, 0);
    for (size_t other : open_) {
      const Entry& entry = *entries_[other];
      if (entry.launched || entry.result || entry.cancelled) continue;
      EXPECT_LE(std::make_pair(key(head), head), std::make_pair(key(other), other));
    }
  }

  void CheckNothingIsHeldTooLong() {
    const SchedulerState state = harness_->batcher.state();
    EXPECT_EQ(state.in_flight, 0);
    if (!state.healthy) return;
    for (size_t index : open_)
      EXPECT_LT(harness_->now, entries_[index]->request.arrival + options_.max_queue_delay);
  }

  void OnClosed(size_t index) {
    Entry& entry = *entries_[index];
    EXPECT_FALSE(entry.result.has_value()) << "answered twice";
    entry.result = entry.reply->Take();
    ASSERT_TRUE(entry.result.has_value());
    ++answered_;
    const absl::Status& status = entry.result->output.status();
    switch (status.code()) {
      case absl::StatusCode::kOk: CheckResult(index, entry); break;
      case absl::StatusCode::kCancelled:
        EXPECT_TRUE(entry.cancelled) << status;
        ++cancelled_;
        break;
      case absl::StatusCode::kDeadlineExceeded:
        EXPECT_GE(harness_->now, std::min(entry.request.deadline, entry.request.start_deadline));
        break;
      case absl::StatusCode::kInternal: EXPECT_GE(failed_steps_, 3) << status; break;
      default: ADD_FAILURE() << status;
    }
  }
  void CheckResult(size_t index, const Entry& entry) {
    EXPECT_EQ(*entry.result->output, FakeEncode(entry.request.tokens, entry.request.types, kWidth));
    EXPECT_GE(entry.result->times.first_scheduled, entry.request.arrival);
    EXPECT_GE(entry.result->times.finished, entry.result->times.first_scheduled);
    if (!options_.preserve_order) return;
    EXPECT_GE(index, last_delivered_);
    last_delivered_ = index;
  }

  void Finish() {
    for (int i = 0; i < 10000 && answered_ < accepted_ && !testing::Test::HasFailure(); ++i) {
      harness_->now += absl::Milliseconds(10);
      Turn();
    }
    EXPECT_EQ(answered_, accepted_);
    EXPECT_EQ(static_cast<int64_t>(harness_->observer.finishes().size()), accepted_);
    EXPECT_THAT(harness_->executor.violations(), testing::IsEmpty());
    const SchedulerState state = harness_->batcher.state();
    EXPECT_FALSE(state.has_work());
    EXPECT_EQ(state.pending_tokens, 0);
  }

  std::mt19937 random_;
  const bool failures_;
  const BatcherOptions options_;
  const ExecutorInfo info_;
  bool timeouts_ = false, delays_ = false;
  std::unique_ptr<BatcherHarness> harness_;
  std::vector<std::unique_ptr<Entry>> entries_;  // by index, which is the first token
  std::vector<size_t> open_;                     // accepted and not answered
  int64_t accepted_ = 0, answered_ = 0, cancelled_ = 0, steps_ = 0, failed_steps_ = 0;
  size_t last_delivered_ = 0;
};

TEST(BatcherPropertyTest, HoldsForRandomWorkloads) {
  int64_t steps = 0, cancelled = 0;
  for (uint32_t seed = 0; steps < 100000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RandomWorkload workload(seed, false);
    workload.Run(400);
    steps += workload.steps();
    cancelled += workload.cancelled();
  }
  EXPECT_GT(cancelled, 1000);
  RecordProperty("steps", std::to_string(steps));  // scripts/checks/scheduler-properties.sh adds up
}

TEST(BatcherPropertyTest, HoldsForRandomWorkloadsWithFailures) {
  int64_t steps = 0;
  for (uint32_t seed = 0; steps < 30000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    RandomWorkload workload(seed, true);
    workload.Run(400);
    steps += workload.steps();
  }
  RecordProperty("steps", std::to_string(steps));
}

}  // namespace
}  // namespace penstock
