#include "cli/bench/load_driver.h"

#include <algorithm>
#include <utility>

namespace penstock {

// Of the run's thread alone.
struct LoadDriver::CurrentRun {
  StartTimes& times;
  const Limits& limits;
  CallContext context;
  std::unordered_map<int64_t, std::shared_ptr<Call>> running = {};
  std::vector<RequestRecord> records = {};
  LoadProgress progress = {};
  absl::Duration next_progress = {};
  int64_t tokens_before = 0;  // of earlier runs
  bool stopping = false;      // Stop() has been seen
};

LoadDriver::LoadDriver(Target& target, const Workload& workload, OnProgress on_progress,
                       absl::Duration progress_period)
    : target_(target),
      workload_(workload),
      on_progress_(std::move(on_progress)),
      progress_period_(progress_period) {}

std::vector<RequestRecord> LoadDriver::Run(StartTimes& times, const Limits& limits,
                                           const RunClock& clock) {
  CurrentRun run{times, limits, {clock, ends_}};
  run.tokens_before = ends_->tokens();
  run.next_progress = clock.Now() + progress_period_;
  while (const std::optional<absl::Duration> intended = AwaitStart(run)) StartOne(run, *intended);
  bool cancelled = false;
  while (!run.running.empty()) {
    if (run.stopping && !std::exchange(cancelled, true))
      for (const auto& [index, call] : run.running) call->Cancel();
    Sleep(run, absl::InfiniteDuration());
  }
  return std::move(run.records);
}

std::optional<absl::Duration> LoadDriver::AwaitStart(CurrentRun& run) {
  while (run.progress.started < run.limits.requests) {
    TakeEnded(run, absl::ZeroDuration());
    const std::optional<absl::Duration> next = run.times.next();
    const absl::Duration now = run.context.clock.Now();
    if (run.stopping || !next || now >= run.limits.duration) return std::nullopt;
    if (now >= run.next_progress) ShowProgress(run);  // also while it is always time to start
    if (*next <= now) return *next;
    Sleep(run, std::min(*next, run.limits.duration));
  }
  return std::nullopt;
}

void LoadDriver::StartOne(CurrentRun& run, absl::Duration intended) {
  const int64_t index = run.limits.first_index + run.progress.started;
  std::optional<absl::Duration> counts_from;
  if (run.times.counts_from_schedule()) counts_from = intended;
  const std::shared_ptr<Call> call =
      target_.Prepare(workload_.Plan(index), counts_from, run.context);
  run.running[index] = call;
  ++run.progress.started;
  run.times.OnStart();
  call->Start();
}

void LoadDriver::Sleep(CurrentRun& run, absl::Duration until) {
  TakeEnded(run, std::min(until, run.next_progress) - run.context.clock.Now());
  if (run.context.clock.Now() >= run.next_progress) ShowProgress(run);
}

void LoadDriver::TakeEnded(CurrentRun& run, absl::Duration wait) {
  CallEnds::News news = ends_->Await(wait, run.stopping);
  run.stopping = news.stopped;
  for (auto& [call, record] : news.ended) {
    record.cut_off = run.stopping && record.code == absl::StatusCode::kCancelled;
    run.times.OnEnd(record.end, record.ok());
    ++(record.ok() ? run.progress.succeeded : run.progress.failed);
    run.running.erase(record.index);
    run.records.push_back(std::move(record));
  }
}

void LoadDriver::ShowProgress(CurrentRun& run) {
  run.progress.elapsed = run.context.clock.Now();
  run.progress.running = static_cast<int64_t>(run.running.size());
  run.progress.output_tokens = ends_->tokens() - run.tokens_before;
  on_progress_(run.progress);
  run.next_progress = run.progress.elapsed + progress_period_;
}

}  // namespace penstock
