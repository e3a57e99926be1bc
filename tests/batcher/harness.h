#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "scheduler/request_batcher.h"
#include "shard/base/mutex.h"
#include "tests/support/fake_encode_executor.h"

namespace penstock {

// Remembers what the batcher told; thread-safe.
class RecordingBatchObserver final : public BatchObserver {
 public:
  void OnBatch(const BatchReport& report) override {
    MutexLock lock(&mutex_);
    batches_.push_back(report);
  }
  bool wants_shares() const override { return true; }
  void OnEncoded(const EncodeFinish& finish) override {
    MutexLock lock(&mutex_);
    finishes_.push_back(finish);
  }
  void OnState(const SchedulerState& state) override {
    MutexLock lock(&mutex_);
    state_ = state;
  }
  std::vector<BatchReport> batches() const {
    MutexLock lock(&mutex_);
    return batches_;
  }
  std::vector<EncodeFinish> finishes() const {
    MutexLock lock(&mutex_);
    return finishes_;
  }
  SchedulerState state() const {
    MutexLock lock(&mutex_);
    return state_;
  }

 private:
  mutable Mutex mutex_;
  std::vector<BatchReport> batches_ ABSL_GUARDED_BY(mutex_);
  std::vector<EncodeFinish> finishes_ ABSL_GUARDED_BY(mutex_);
  SchedulerState state_ ABSL_GUARDED_BY(mutex_);
};

// `length` tokens that differ with `key`, which is the first of them.
inline EncodeRequest MakeInput(int32_t key, int32_t length) {
  EncodeRequest request;
  request.tokens.push_back(key);
  for (int32_t i = 1; i < length; ++i) request.tokens.push_back((key * 37 + i * 11) % 1000);
  return request;
}

// The reading end of one request, and the request to compare it with.
class Asker {
 public:
  explicit Asker(EncodeRequest request)
      : request_(std::move(request)),
        reply_(std::make_shared<EncodeReply>([closings = closings_] { ++*closings; })) {}

  const EncodeRequest& request() const { return request_; }
  const std::shared_ptr<EncodeReply>& reply() const { return reply_; }
  int closings() const { return closings_->load(); }  // 1 once it has ended

  bool ended() {
    if (!result_) result_ = reply_->Take();
    return result_.has_value();
  }
  absl::Status status() { return ended() ? result_->output.status() : absl::UnknownError("open"); }
  bool right(int32_t width) {
    return ended() && result_->output.ok() &&
           *result_->output == FakeEncode(request_.tokens, request_.types, width);
  }
  const EncodeTimes& times() const { return result_->times; }
  // False when it does not end in time.
  bool AwaitEnd(absl::Duration timeout = absl::Seconds(60)) {
    const absl::Time limit = absl::Now() + timeout;
    while (!ended()) {
      if (absl::Now() > limit) return false;
      absl::SleepFor(absl::Milliseconds(1));
    }
    return true;
  }

 private:
  EncodeRequest request_;
  std::shared_ptr<std::atomic<int>> closings_ = std::make_shared<std::atomic<int>>(0);
  std::shared_ptr<EncodeReply> reply_;
  std::optional<EncodeReply::Result> result_;
};

// A batcher on a fake executor, with a clock that stands still unless a test moves it.
class BatcherHarness {
 public:
  explicit BatcherHarness(const BatcherOptions& options = {},
                          const ExecutorInfo& info = SmallEncoderInfo())
      : executor(info), batcher(options, executor, observer, [this] { return now; }) {}

  absl::Status Submit(Asker& asker) { return batcher.Submit(asker.request(), asker.reply()); }
  // Submits without a check, for tests about something else.
  std::unique_ptr<Asker> Ask(EncodeRequest request) {
    auto asker = std::make_unique<Asker>(std::move(request));
    submitted_ok = Submit(*asker).ok() && submitted_ok;
    return asker;
  }
  // Turns until there is nothing to do, at most `limit` times; the number of turns.
  int StepAll(int limit = 100000) {
    int turns = 0;
    while (turns < limit && batcher.Step()) ++turns;
    return turns;
  }

  absl::Time now = absl::FromUnixSeconds(1000);
  bool submitted_ok = true;
  FakeEncodeExecutor executor;
  RecordingBatchObserver observer;
  RequestBatcher batcher;
};

// One stage, as most encoders run.
inline ExecutorInfo OneStageInfo() {
  ExecutorInfo info = SmallEncoderInfo();
  info.stages = 1;
  info.max_in_flight = 2;
  return info;
}

}  // namespace penstock
