#include "shard/rank_threads.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shard/base/detached_status.h"
#include "shard/base/status_macros.h"
#include "shard/base/thread_name.h"

namespace penstock {
RankThreads::RankThreads(const ShardPlan& plan, const GroupOptions& groups,
                         std::vector<std::unique_ptr<Shard>> shards)
    : plan_(plan), groups_(groups), ledger_(plan) {
  {
    MutexLock lock(&mutex_);
    for (auto& shard : shards) {
      ranks_.emplace_back();
      ranks_.back().shard = std::move(shard);
    }
    Connect();
  }
  for (size_t i = 0; i < shards.size(); ++i) threads_.emplace_back([this, i] { Loop(i); });
}

RankThreads::~RankThreads() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    Fail(absl::CancelledError("the shard group is being destroyed"));
  }
  for (std::thread& thread : threads_) thread.join();
}

void RankThreads::Connect() {
  const int tensor = plan_.tensor(), pipeline = plan_.pipeline();
  std::vector<std::unique_ptr<Communicator>> of_stage(ranks_.size()), of_column(ranks_.size());
  for (int stage = 0; stage < pipeline; ++stage) {
    auto group = MakeLocalGroup(absl::StrCat("tensor (stage ", stage, ")"), tensor, groups_.tensor);
    for (int t = 0; t < tensor; ++t)
      of_stage[static_cast<size_t>(stage * tensor + t)] = std::move(group[static_cast<size_t>(t)]);
  }
  for (int t = 0; t < tensor; ++t) {
    auto group =
        MakeLocalGroup(absl::StrCat("pipeline (tensor rank ", t, ")"), pipeline, groups_.pipeline);
    for (int stage = 0; stage < pipeline; ++stage)
      of_column[static_cast<size_t>(stage * tensor + t)] =
          std::move(group[static_cast<size_t>(stage)]);
  }
  for (size_t i = 0; i < ranks_.size(); ++i) {
    ranks_[i].shard->Connect(std::move(of_stage[i]), std::move(of_column[i]), epoch_);
    ranks_[i].taken = 0;
  }
}

void RankThreads::Launch(std::shared_ptr<const StepBatch> batch) {
  MutexLock lock(&mutex_);
  if (!failure_.ok()) return ledger_.LaunchLost();  // Wait() will tell
  ledger_.Launch(batch->step);
  steps_.push_back(std::move(batch));
}

absl::StatusOr<StepResult> RankThreads::Wait(std::chrono::milliseconds timeout) {
  MutexLock lock(&mutex_);
  if (failure_.ok() && ledger_.unclaimed() == 0)
    return absl::FailedPreconditionError("no step is outstanding");
  const bool met = mutex_.AwaitFor(
      [this] {
        mutex_.AssertHeld();
        return ledger_.has_result() || !failure_.ok();
      },
      timeout);
  if (!met)
    Fail(absl::DeadlineExceededError(absl::StrCat(Late(), " after ", timeout.count(), " ms")));
  if (!failure_.ok()) return Detached(failure_);
  return ledger_.Take();
}

void RankThreads::Abort(const absl::Status& why) {
  MutexLock lock(&mutex_);
  Fail(why);
}

void RankThreads::Fail(const absl::Status& why) {
  if (!failure_.ok()) return;
  failure_ = why.ok() ? absl::CancelledError("aborted") : Detached(why);
  for (Rank& rank : ranks_) rank.shard->Abort(failure_);
  ledger_.Stop();
}

absl::Status RankThreads::Restart(std::chrono::milliseconds timeout) {
  MutexLock lock(&mutex_);
  Fail(absl::AbortedError("the shard group is being restarted"));
  const bool met = mutex_.AwaitFor(
      [this] {
        mutex_.AssertHeld();
        return idle();
      },
      timeout);
  if (!met) return absl::DeadlineExceededError(absl::StrCat("cannot restart: ", Late()));
  for (Rank& rank : ranks_) RETURN_IF_ERROR(rank.shard->Ready());
  ++epoch_;
  steps_.clear();
  ledger_.Clear();
  first_step_ = 0;
  Connect();
  failure_ = absl::OkStatus();
  return absl::OkStatus();
}

bool RankThreads::idle() const {
  return std::none_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.running; });
}

std::string RankThreads::Late() const {
  std::string late;
  for (size_t i = 0; i < ranks_.size(); ++i)
    if (ranks_[i].running)
      absl::StrAppend(&late, late.empty() ? "" : "; ", "rank ", i, " is still at step ",
                      ranks_[i].taken - 1, " (", ranks_[i].shard->operation(), ")");
  return late.empty() ? "no rank is running a step" : late;
}

void RankThreads::Loop(size_t index) {
  NameThread(absl::StrCat("rank ", index));
  Shard* shard = nullptr;
  {
    MutexLock lock(&mutex_);
    shard = ranks_[index].shard.get();
  }
  while (const std::shared_ptr<const StepBatch> batch = Take(index))
    Give(index, shard->Run(*batch));
}

std::shared_ptr<const StepBatch> RankThreads::Take(size_t index) {
  MutexLock lock(&mutex_);
  Rank& rank = ranks_[index];
  mutex_.Await([&] {
    mutex_.AssertHeld();
    return stopping_ || (failure_.ok() && rank.taken < first_step_ + std::ssize(steps_));
  });
  if (stopping_) return nullptr;
  auto batch = steps_[static_cast<size_t>(rank.taken - first_step_)];
  ++rank.taken;
  rank.running = true;
  const auto slowest = std::min_element(
      ranks_.begin(), ranks_.end(), [](const Rank& a, const Rank& b) { return a.taken < b.taken; });
  for (; first_step_ < slowest->taken; ++first_step_) steps_.pop_front();
  return batch;
}

void RankThreads::Give(size_t index, absl::StatusOr<StepResult> result) {
  MutexLock lock(&mutex_);
  Rank& rank = ranks_[index];
  rank.running = false;
  rank.stats = rank.shard->stats();
  if (!result.ok()) return Fail(result.status());
  if (!failure_.ok()) return;
  const absl::Status sound = ledger_.Add(static_cast<int>(index), *std::move(result));
  if (!sound.ok()) Fail(sound);
}

int RankThreads::outstanding() const {
  MutexLock lock(&mutex_);
  return ledger_.unclaimed();
}

absl::Status RankThreads::failure() const {
  MutexLock lock(&mutex_);
  return Detached(failure_);
}

uint64_t RankThreads::epoch() const {
  MutexLock lock(&mutex_);
  return epoch_;
}

PipelineStats RankThreads::Stats() const {
  MutexLock lock(&mutex_);
  PipelineStats stats = ledger_.Time();
  for (int stage = 0; stage < plan_.pipeline(); ++stage) {
    const Rank& rank = ranks_[static_cast<size_t>(stage * plan_.tensor())];
    stats.stages.push_back(rank.stats);
    double& busy = stats.stages.back().busy;
    busy = rank.busy.Tell(StepLedger::Grains(busy + rank.shard->computing_seconds()), stats.active);
  }
  return stats;
}

}  // namespace penstock
