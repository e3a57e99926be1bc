#include "bench/engine/drive.h"

#include <chrono>
#include <memory>
#include <random>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "shard/base/mutex.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

int64_t SteadyNanoseconds() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

class StepLog final : public SchedulerObserver {
 public:
  void OnStep(const StepReport& report) override { steps.push_back(report); }
  void OnToken(absl::Duration) override {}
  void OnFinish(const FinishReport&) override {}
  void OnPreempt() override {}
  void OnState(const SchedulerState&) override {}

  std::vector<StepReport> steps;  // the scheduler thread's until it has ended
};

// Reads every stream as soon as there is something in it.
class Readers {
 public:
  explicit Readers(size_t count) : logs_(count), open_(count) {
    for (size_t i = 0; i < count; ++i)
      streams_.push_back(std::make_shared<TokenStream>([this, i] { Read(i); }));
  }

  const std::shared_ptr<TokenStream>& stream(size_t i) const { return streams_[i]; }

  void MarkSubmitted(size_t i) {
    MutexLock lock(&mutex_);
    logs_[i].submitted = SteadyNanoseconds();
  }

  void AwaitTokens(int64_t count) {
    MutexLock lock(&mutex_);
    mutex_.Await([&] {
      mutex_.AssertHeld();
      return tokens_ >= count || !status_.ok();
    });
  }

  absl::StatusOr<std::vector<StreamLog>> AwaitEnd() {
    MutexLock lock(&mutex_);
    mutex_.Await([&] {
      mutex_.AssertHeld();
      return open_ == 0 || !status_.ok();
    });
    RETURN_IF_ERROR(status_);
    return logs_;
  }

 private:
  void Read(size_t i) {
    const TokenStream::Chunk chunk = streams_[i]->Read();
    const int64_t now = SteadyNanoseconds();
    MutexLock lock(&mutex_);
    logs_[i].tokens.insert(logs_[i].tokens.end(), chunk.tokens.size(), now);
    for (const SampledToken& token : chunk.tokens) logs_[i].ids.push_back(token.token);
    tokens_ += std::ssize(chunk.tokens);
    if (!chunk.closed) return;
    --open_;
    status_.Update(chunk.status);
  }

  std::vector<std::shared_ptr<TokenStream>> streams_;
  Mutex mutex_;
  std::vector<StreamLog> logs_ ABSL_GUARDED_BY(mutex_);
  int64_t tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t open_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<RunLog> Drive(const SchedulerOptions& options, Executor& executor,
                             const std::vector<Arrival>& arrivals) {
  RETURN_IF_ERROR(executor.Restart());
  StepLog log;
  Readers readers(arrivals.size());
  RunLog run;
  Scheduler scheduler(options, executor, log);
  scheduler.Start();
  for (size_t i = 0; i < arrivals.size(); ++i) {
    readers.AwaitTokens(arrivals[i].after_tokens);
    absl::SleepFor(arrivals[i].delay);
    readers.MarkSubmitted(i);
    RETURN_IF_ERROR(scheduler.Submit(arrivals[i].request, readers.stream(i)));
  }
  ASSIGN_OR_RETURN(run.streams, readers.AwaitEnd());
  scheduler.Stop(absl::InfiniteFuture());
  run.steps = std::move(log.steps);
  return run;
}

GenerateRequest MakeRequest(uint64_t seed, int32_t vocab, int32_t prompt, int32_t output) {
  GenerateRequest request;
  std::mt19937_64 random(seed);
  for (int32_t i = 0; i < prompt; ++i)
    request.prompt.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(vocab)));
  request.max_tokens = output;
  request.sampling.temperature = 0;
  request.sampling.seed = seed;
  return request;
}

}  // namespace penstock
