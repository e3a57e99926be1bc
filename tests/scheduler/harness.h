#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "scheduler/scheduler.h"
#include "shard/base/mutex.h"
#include "tests/support/fake_executor.h"
#include "tests/support/fake_model.h"

namespace penstock {

// Remembers what the scheduler told; thread-safe.
class RecordingObserver : public SchedulerObserver {
 public:
  struct Finish {
    FinishReason reason;
    absl::Status status;
    int32_t prompt_tokens, output_tokens;
  };
  void OnStep(const StepReport& report) override {
    MutexLock lock(&mutex_);
    steps_.push_back(report);
  }
  void OnToken(absl::Duration) override { ++tokens; }
  void OnFinish(const FinishReport& report) override {
    MutexLock lock(&mutex_);
    finishes_.push_back({report.reason, report.status, report.prompt_tokens, report.output_tokens});
  }
  void OnPreempt() override { ++preemptions; }
  void OnRecovery(const RecoveryReport& report) override {
    ++recoveries;
    recomputed += report.tokens;
  }
  void OnState(const SchedulerState& state) override {
    if (!state.healthy) was_unhealthy = true;
  }
  std::vector<Finish> finishes() const {
    MutexLock lock(&mutex_);
    return finishes_;
  }
  std::vector<StepReport> steps() const {
    MutexLock lock(&mutex_);
    return steps_;
  }

  std::atomic<int> tokens{0}, preemptions{0}, recoveries{0};
  std::atomic<int64_t> recomputed{0};
  std::atomic<bool> was_unhealthy{false};

 private:
  mutable Mutex mutex_;
  std::vector<Finish> finishes_ ABSL_GUARDED_BY(mutex_);
  std::vector<StepReport> steps_ ABSL_GUARDED_BY(mutex_);
};

// The reading end of one request, and the request to compare it with.
class Client {
 public:
  explicit Client(GenerateRequest request)
      : request_(std::move(request)), stream_(std::make_shared<TokenStream>(nullptr)) {}

  const GenerateRequest& request() const { return request_; }
  const std::shared_ptr<TokenStream>& stream() const { return stream_; }

  // Takes what has come so far. True once the stream is closed.
  bool Poll() {
    TokenStream::Chunk chunk = stream_->Read();
    for (const SampledToken& token : chunk.tokens) tokens_.push_back(token.token);
    if (chunk.closed) end_ = std::move(chunk);
    return end_.closed;
  }
  // False when the stream does not close in time.
  bool AwaitEnd(absl::Duration timeout = absl::Seconds(60)) {
    const absl::Time limit = absl::Now() + timeout;
    while (!Poll()) {
      if (absl::Now() > limit) return false;
      absl::SleepFor(absl::Milliseconds(1));
    }
    return true;
  }
  const std::vector<int32_t>& tokens() const { return tokens_; }
  const TokenStream::Chunk& end() const { return end_; }
  std::vector<int32_t> Expected(int32_t vocab) const {
    return FakeGenerate({.prompt = request_.prompt,
                         .generated = request_.generated,
                         .max_tokens = request_.max_tokens,
                         .min_tokens = request_.min_tokens,
                         .stop_tokens = request_.stop_tokens,
                         .sampling = request_.sampling,
                         .sample_index = request_.sample_index},
                        vocab);
  }

 private:
  GenerateRequest request_;
  std::shared_ptr<TokenStream> stream_;
  std::vector<int32_t> tokens_;
  TokenStream::Chunk end_;
};

// A scheduler on a fake executor. The thread starts only when the test says so.
class Harness {
 public:
  explicit Harness(const ExecutorInfo& info = SmallExecutorInfo(), SchedulerOptions options = {})
      : executor(info), scheduler(options, executor, observer) {}

  absl::Status Submit(Client& client) {
    return scheduler.Submit(client.request(), client.stream());
  }
  // Turns until there is nothing to do, at most `limit` times; the number of turns.
  int StepAll(int limit = 100000) {
    int turns = 0;
    while (turns < limit && scheduler.Step()) ++turns;
    return turns;
  }

  FakeExecutor executor;
  RecordingObserver observer;
  Scheduler scheduler;
};

// A prompt of `length` tokens that differs with `key`.
inline GenerateRequest MakeRequest(int32_t key, int32_t length, int32_t max_tokens) {
  GenerateRequest request;
  for (int32_t i = 0; i < length; ++i) request.prompt.push_back((key * 37 + i * 11) % 1000);
  request.max_tokens = max_tokens;
  request.sampling.seed = static_cast<uint64_t>(key);
  return request;
}

}  // namespace penstock
