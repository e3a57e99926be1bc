#include "shard/remote/remote_group.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "shard/base/cpus.h"
#include "shard/base/detached_status.h"
#include "shard/base/mutex.h"
#include "shard/base/status_macros.h"
#include "shard/base/thread_name.h"
#include "shard/busy_meter.h"
#include "shard/remote/load_order.h"
#include "shard/remote/step_codec.h"
#include "shard/remote/worker_crew.h"
#include "shard/step_check.h"
#include "shard/step_ledger.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTick{250};

class RemoteGroup final : public Executor {
 public:
  RemoteGroup(const ShardPlan& plan, const GroupOptions& groups, v1::Load load,
              RemoteGroupOptions options);
  ~RemoteGroup() override;

  // Restart() for the first time.
  absl::Status Begin(LoadProgress* progress);

  const ExecutorInfo& info() const override { return options_.memory.info; }
  void Launch(StepBatch batch) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<StepResult> Wait() override ABSL_LOCKS_EXCLUDED(mutex_);
  void Abort(absl::Status why) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Restart() override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status status() const override ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t epoch() const override ABSL_LOCKS_EXCLUDED(mutex_);
  PipelineStats Stats() const override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Rank {
    int64_t done = -1;  // the last step of this epoch that it has finished
    StageStats stats;   // of the process that runs it now
    StageStats before;  // of those before it
    mutable BusyMeter busy;
  };

  void OnDone(size_t worker, const v1::StepDone& done) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnLost(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnOpened(const RemoteWorker& worker) ABSL_LOCKS_EXCLUDED(mutex_);
  void Fail(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Late() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Watch() ABSL_LOCKS_EXCLUDED(mutex_);

  const ShardPlan plan_;
  const RemoteGroupOptions options_;

  mutable Mutex mutex_;
  std::vector<Rank> ranks_ ABSL_GUARDED_BY(mutex_);
  StepLedger ledger_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);  // the first loss since the last Restart() began
  bool restarting_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_);
  WorkerCrew crew_;  // ends first: what it tells must still have somebody to be told to
  std::thread watch_;
};

// Beyond that of any leader before, so that nothing of theirs is ever taken for ours.
uint64_t FirstEpoch() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<milliseconds>(now).count());
}

RemoteGroup::RemoteGroup(const ShardPlan& plan, const GroupOptions& groups, v1::Load load,
                         RemoteGroupOptions options)
    : plan_(plan),
      options_(std::move(options)),
      ranks_(static_cast<size_t>(plan.ranks())),
      ledger_(plan),
      failure_(absl::UnavailableError("the ranks are not loaded")),
      epoch_(FirstEpoch()),
      crew_(plan, groups, std::move(load), options_,
            {[this](size_t worker, const v1::StepDone& done) { OnDone(worker, done); },
             [this](const absl::Status& why) { OnLost(why); },
             [this](const RemoteWorker& worker) { OnOpened(worker); }}),
      watch_([this] { Watch(); }) {}

RemoteGroup::~RemoteGroup() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    Fail(absl::CancelledError("the shard group is being destroyed"));
  }
  watch_.join();
}

void RemoteGroup::Watch() {
  NameThread("shard watch");
  const auto stopping = [this] {
    mutex_.AssertHeld();
    return stopping_;
  };
  for (;;) {
    {
      MutexLock lock(&mutex_);
      if (mutex_.AwaitFor(stopping, kTick)) return;
    }
    crew_.Tick(kTick);
  }
}

void RemoteGroup::Launch(StepBatch batch) {
  if (batch.plan_hash == 0) batch.plan_hash = HashPlan(batch);
  absl::Status sound = CheckStep(batch, info());
  MutexLock lock(&mutex_);
  if (sound.ok() && ledger_.unclaimed() >= info().max_in_flight)
    sound = absl::FailedPreconditionError(
        absl::StrCat("step ", batch.step, ": more than ", info().max_in_flight, " in flight"));
  if (!sound.ok()) Fail(sound);
  if (!failure_.ok()) return ledger_.LaunchLost();  // Wait() will tell
  ledger_.Launch(batch.step);
  v1::LeaderMessage message;
  *message.mutable_run() = EncodeStep(batch);
  crew_.Send(message);
}

absl::StatusOr<StepResult> RemoteGroup::Wait() {
  MutexLock lock(&mutex_);
  if (failure_.ok() && ledger_.unclaimed() == 0)
    return absl::FailedPreconditionError("no step is outstanding");
  const bool met = mutex_.AwaitFor(
      [this] {
        mutex_.AssertHeld();
        return ledger_.has_result() || !failure_.ok();
      },
      options_.step_timeout);
  if (!met)
    Fail(absl::DeadlineExceededError(
        absl::StrCat(Late(), " after ", options_.step_timeout.count(), " ms")));
  if (!failure_.ok()) return Detached(failure_);
  return ledger_.Take();
}

std::string RemoteGroup::Late() const {
  int64_t least = ranks_.front().done;
  for (const Rank& rank : ranks_) least = std::min(least, rank.done);
  std::string late;
  for (int rank = 0; rank < plan_.ranks(); ++rank)
    if (ranks_[static_cast<size_t>(rank)].done == least)
      absl::StrAppend(&late, late.empty() ? "" : "; ", "rank ", rank, " of ",
                      crew_.of_rank(rank).name(), " has not finished step ", least + 1);
  return late;
}

void RemoteGroup::Abort(absl::Status why) {
  MutexLock lock(&mutex_);
  Fail(why);
  if (restarting_) crew_.Interrupt();
}

void RemoteGroup::Fail(const absl::Status& why) {
  if (!failure_.ok()) return;
  failure_ = why.ok() ? absl::CancelledError("aborted") : Detached(why);
  v1::LeaderMessage message;
  message.mutable_abort()->set_epoch(epoch_);
  *message.mutable_abort()->mutable_why() = EncodeOutcome(failure_);
  crew_.Send(message);
  ledger_.Stop();
}

void RemoteGroup::OnLost(const absl::Status& why) {
  {
    MutexLock lock(&mutex_);
    if (stopping_) return;
    lost_.Update(Detached(why));
    Fail(why);
  }
  options_.warn(absl::StrCat("lost: ", why.message()));
}

void RemoteGroup::OnOpened(const RemoteWorker& worker) {
  MutexLock lock(&mutex_);
  for (const int each : worker.ranks()) {
    Rank& rank = ranks_[static_cast<size_t>(each)];
    rank.before.busy += rank.stats.busy;
    rank.before.transfer += rank.stats.transfer;
    rank.stats = {};
  }
}

void RemoteGroup::OnDone(size_t worker, const v1::StepDone& done) {
  MutexLock lock(&mutex_);
  if (done.epoch() != epoch_ || !failure_.ok()) return;  // of a time that is over
  const auto rank = static_cast<int64_t>(done.rank());
  if (rank >= plan_.ranks() || crew_.worker_of(static_cast<int>(rank)) != worker)
    return Fail(absl::InternalError(absl::StrCat(crew_.worker(worker).name(), " tells of rank ",
                                                 rank, ", which it does not run")));
  const absl::Status outcome = DecodeOutcome(done.outcome());
  if (!outcome.ok()) return Fail(outcome);
  Rank& mine = ranks_[static_cast<size_t>(rank)];
  mine.done = done.step();
  mine.stats = {done.busy(), done.transfer()};
  absl::StatusOr<StepResult> share = DecodeDone(done);
  absl::Status sound = share.status();
  if (sound.ok()) sound = ledger_.Add(static_cast<int>(rank), *std::move(share));
  if (!sound.ok()) Fail(sound);
}

absl::Status RemoteGroup::Begin(LoadProgress* progress) {
  constexpr int kAttempts = 3;  // for a worker that dies while the model is being loaded
  constexpr milliseconds kPause{200};
  const auto end = std::chrono::steady_clock::now() + options_.start_timeout;
  std::string told;
  for (int attempt = 1;; ++attempt) {
    absl::Status status = crew_.BringUp(progress);
    if (status.ok()) status = Restart();
    const bool may_pass = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
    const bool in_time =
        attempt < kAttempts || (!crew_.local() && std::chrono::steady_clock::now() < end);
    if (!may_pass || !in_time) return status;
    if (status.message() != told) options_.warn(absl::StrCat(status.message(), "; trying again"));
    told = std::string(status.message());
    std::this_thread::sleep_for(kPause);
  }
}

absl::Status RemoteGroup::Restart() {
  uint64_t epoch = 0;
  {
    MutexLock lock(&mutex_);
    Fail(absl::AbortedError("the shard group is being restarted"));
    restarting_ = true;
    lost_ = absl::OkStatus();
    epoch = ++epoch_;
  }
  crew_.LoseSilent();
  absl::Status status = crew_.BringUp(nullptr);
  if (status.ok()) status = crew_.Connect(epoch);
  MutexLock lock(&mutex_);
  restarting_ = false;
  RETURN_IF_ERROR(status);
  if (!crew_.ready()) return lost_.ok() ? absl::UnavailableError("a worker was lost") : lost_;
  ledger_.Clear();
  for (Rank& rank : ranks_) rank.done = -1;
  failure_ = absl::OkStatus();
  return absl::OkStatus();
}

absl::Status RemoteGroup::status() const {
  MutexLock lock(&mutex_);
  return Detached(failure_);
}

uint64_t RemoteGroup::epoch() const {
  MutexLock lock(&mutex_);
  return epoch_;
}

PipelineStats RemoteGroup::Stats() const {
  MutexLock lock(&mutex_);
  PipelineStats stats = ledger_.Time();
  for (int stage = 0; stage < plan_.pipeline(); ++stage) {
    const Rank& rank = ranks_[static_cast<size_t>(stage * plan_.tensor())];
    const double busy = StepLedger::Grains(rank.before.busy + rank.stats.busy);
    stats.stages.push_back(
        {rank.busy.Tell(busy, stats.active), rank.before.transfer + rank.stats.transfer});
  }
  for (int rank = 0; rank < plan_.ranks(); ++rank) {
    const RemoteWorker& worker = crew_.of_rank(rank);
    stats.ranks.push_back({.up = worker.ready(),
                           .restarts = std::max<int64_t>(0, worker.opened() - 1),
                           .resident_bytes = worker.resident_bytes()});
  }
  return stats;
}

v1::Load MakeLoad(const Checkpoint& checkpoint, const ShardPlan& plan,
                  const RemoteGroupOptions& options) {
  LoadOrder order;
  order.model_path = options.model_path;
  order.fingerprint = Fingerprint(checkpoint);
  order.plan = {plan.tensor(), plan.pipeline(), {}};
  for (int stage = 0; stage < plan.pipeline(); ++stage)
    order.plan.layers.push_back(static_cast<int>(plan.Layers(stage).size()));
  order.memory = options.memory;
  order.cpu = options.cpu;
  const int ranks = plan.ranks() * options.replicas;
  if (order.cpu.threads == 0) order.cpu.threads = std::max(1, AvailableCpus() / ranks);
  order.step_timeout = options.step_timeout;
  return EncodeLoad(order);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> LoadRemoteGroup(const Checkpoint& checkpoint,
                                                          const ModelSpec& spec,
                                                          const ShardPlan& plan,
                                                          const RemoteGroupOptions& options,
                                                          LoadProgress* progress) {
  RemoteGroupOptions complete = options;
  if (complete.places.empty())
    for (int rank = 0; rank < plan.ranks(); ++rank) complete.places.push_back({{rank}});
  GroupOptions groups = PlanGroups(spec, plan, options.memory.options);
  for (CommOptions* group : {&groups.tensor, &groups.pipeline})
    group->timeout = options.step_timeout;
  auto made = std::make_unique<RemoteGroup>(plan, groups, MakeLoad(checkpoint, plan, options),
                                            std::move(complete));
  RETURN_IF_ERROR(made->Begin(progress));
  return made;
}

}  // namespace penstock
