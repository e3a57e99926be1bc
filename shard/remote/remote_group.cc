#include "shard/remote/remote_group.h"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <random>
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
#include "shard/remote/epoch_groups.h"
#include "shard/remote/load_order.h"
#include "shard/remote/step_codec.h"
#include "shard/step_check.h"
#include "shard/step_ledger.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTick{250};
// A worker that has been silent for so long when something else goes wrong is what is wrong.
constexpr milliseconds kSuspicious{2000};

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
    size_t worker = 0;
    int64_t done = -1;  // the last step of this epoch that it has finished
    StageStats stats;   // of the process that runs it now
    StageStats before;  // of those before it
    mutable BusyMeter busy;
  };

  absl::Status BringUp(LoadProgress* progress);
  absl::StatusOr<std::string> OpenOne(RemoteWorker& worker, LoadProgress* progress)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void FitToHost(const RemoteWorker& worker, v1::Load* load) const;
  void MoveToSpare(RemoteWorker& worker) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Connect(uint64_t epoch);
  // Does it for all workers at once; the first error, naming the worker.
  absl::Status ForAll(const std::function<absl::Status(RemoteWorker& worker)>& act);
  void Resume(uint64_t epoch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void OnDone(size_t worker, const v1::StepDone& done) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnLost(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);
  void Fail(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Late() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AllReady() const;
  void Watch() ABSL_LOCKS_EXCLUDED(mutex_);

  const ShardPlan plan_;
  const GroupOptions groups_;
  const v1::Load load_;  // without the ranks
  const RemoteGroupOptions options_;
  const std::string name_;  // of this group's shared segments
  bool spin_ = false;
  std::vector<EpochGroups::Place> places_;  // by rank
  std::vector<std::string> signatures_;     // by worker
  std::vector<std::unique_ptr<RemoteWorker>> workers_;

  mutable Mutex mutex_;
  std::vector<Rank> ranks_ ABSL_GUARDED_BY(mutex_);
  StepLedger ledger_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);  // the first loss since the last Restart() began
  std::deque<std::string> spares_ ABSL_GUARDED_BY(mutex_);  // the next first
  bool restarting_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_);
  std::thread watch_;
};

std::string UniqueName() {
  return absl::StrCat("penstock-", getpid(), "-", absl::Hex(std::random_device{}()));
}

// Beyond that of any leader before, so that nothing of theirs is ever taken for ours.
uint64_t FirstEpoch() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<milliseconds>(now).count());
}

RemoteGroup::RemoteGroup(const ShardPlan& plan, const GroupOptions& groups, v1::Load load,
                         RemoteGroupOptions options)
    : plan_(plan),
      groups_(groups),
      load_(std::move(load)),
      options_(std::move(options)),
      name_(UniqueName()),
      places_(static_cast<size_t>(plan.ranks())),
      ranks_(static_cast<size_t>(plan.ranks())),
      ledger_(plan),
      failure_(absl::UnavailableError("the ranks are not loaded")),
      spares_(options_.spares.begin(), options_.spares.end()),
      epoch_(FirstEpoch()) {
  for (const WorkerPlace& place : options_.places) {
    const size_t index = workers_.size();
    workers_.push_back(std::make_unique<RemoteWorker>(
        place, options_.worker,
        RemoteWorker::Told{[this, index](const v1::StepDone& done) { OnDone(index, done); },
                           [this](const absl::Status& why) { OnLost(why); }}));
    MutexLock lock(&mutex_);
    for (const int rank : place.ranks) {
      ranks_[static_cast<size_t>(rank)].worker = index;
      places_[static_cast<size_t>(rank)] = {static_cast<int>(index), workers_.back()->local()};
    }
  }
  signatures_.resize(workers_.size());
  const auto threads = static_cast<int>(load_.cpu().threads());
  spin_ = threads > 0 && plan.ranks() * options_.replicas * threads <= AvailableCpus();
  watch_ = std::thread([this] { Watch(); });
}

RemoteGroup::~RemoteGroup() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    Fail(absl::CancelledError("the shard group is being destroyed"));
  }
  watch_.join();
  workers_.clear();  // while what they tell still has somebody to be told to
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
    for (const auto& worker : workers_) worker->Tick(kTick);
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
  for (const auto& worker : workers_) worker->Send(message);
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
  for (size_t i = 0; i < ranks_.size(); ++i)
    if (ranks_[i].done == least)
      absl::StrAppend(&late, late.empty() ? "" : "; ", workers_[ranks_[i].worker]->name(),
                      " has not finished step ", least + 1);
  return late;
}

void RemoteGroup::Abort(absl::Status why) {
  MutexLock lock(&mutex_);
  Fail(why);
  if (restarting_)
    for (const auto& worker : workers_) worker->Interrupt();
}

void RemoteGroup::Fail(const absl::Status& why) {
  if (!failure_.ok()) return;
  failure_ = why.ok() ? absl::CancelledError("aborted") : Detached(why);
  v1::LeaderMessage message;
  message.mutable_abort()->set_epoch(epoch_);
  *message.mutable_abort()->mutable_why() = EncodeOutcome(failure_);
  for (const auto& worker : workers_) worker->Send(message);
  ledger_.Stop();
}

void RemoteGroup::OnLost(const absl::Status& why) {
  {
    MutexLock lock(&mutex_);
    if (stopping_) return;
    lost_.Update(Detached(why));
    Fail(why);
  }
  options_.log(absl::StrCat("lost: ", why.message()));
}

void RemoteGroup::OnDone(size_t worker, const v1::StepDone& done) {
  MutexLock lock(&mutex_);
  if (done.epoch() != epoch_ || !failure_.ok()) return;  // of a time that is over
  const auto at = static_cast<size_t>(done.rank());
  if (at >= ranks_.size() || ranks_[at].worker != worker)
    return Fail(absl::InternalError(
        absl::StrCat(workers_[worker]->name(), " tells of rank ", at, ", which it does not run")));
  const absl::Status outcome = DecodeOutcome(done.outcome());
  if (!outcome.ok()) return Fail(outcome);
  Rank& rank = ranks_[at];
  rank.done = done.step();
  rank.stats = {done.busy(), done.transfer()};
  absl::StatusOr<StepResult> share = DecodeDone(done);
  absl::Status sound = share.status();
  if (sound.ok()) sound = ledger_.Add(static_cast<int>(at), *std::move(share));
  if (!sound.ok()) Fail(sound);
}

absl::Status RemoteGroup::ForAll(const std::function<absl::Status(RemoteWorker& worker)>& act) {
  std::vector<absl::Status> outcomes(workers_.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < workers_.size(); ++i)
    threads.emplace_back([&, i] { outcomes[i] = act(*workers_[i]); });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < workers_.size(); ++i)
    if (!outcomes[i].ok())
      return absl::Status(outcomes[i].code(),
                          absl::StrCat(workers_[i]->name(), ": ", outcomes[i].message()));
  return absl::OkStatus();
}

absl::StatusOr<std::string> RemoteGroup::OpenOne(RemoteWorker& worker, LoadProgress* progress) {
  v1::Load load = load_;
  for (const int rank : worker.ranks()) load.add_ranks(static_cast<uint32_t>(rank));
  if (!worker.local()) FitToHost(worker, &load);
  if (worker.opened() > 0) MoveToSpare(worker);
  absl::StatusOr<std::string> signature = worker.Open(load, progress);
  if (absl::IsUnavailable(signature.status()) && worker.opened() == 0) MoveToSpare(worker);
  return signature;
}

// Whoever is lost may be back at its address later, so that is where to look last.
void RemoteGroup::MoveToSpare(RemoteWorker& worker) {
  if (worker.local()) return;
  MutexLock lock(&mutex_);
  if (spares_.empty()) return;
  spares_.push_back(worker.Move(spares_.front()));
  spares_.pop_front();
}

// Its CPUs and its memory are its own to look at.
void RemoteGroup::FitToHost(const RemoteWorker& worker, v1::Load* load) const {
  load->mutable_cpu()->set_threads(static_cast<uint32_t>(options_.cpu.threads));
  int64_t bytes = 0;
  for (const int rank : worker.ranks())
    bytes += options_.memory.ranks[static_cast<size_t>(rank)].total();
  load->set_needed_bytes(bytes);
}

absl::Status RemoteGroup::BringUp(LoadProgress* progress) {
  RETURN_IF_ERROR(ForAll([&](RemoteWorker& worker) -> absl::Status {
    if (worker.ready()) return absl::OkStatus();
    const auto begin = std::chrono::steady_clock::now();
    ASSIGN_OR_RETURN(std::string signature, OpenOne(worker, progress));
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    options_.log(absl::StrCat(worker.name(), " is ready after ", taken.count(), " s"));
    MutexLock lock(&mutex_);
    for (const int rank : worker.ranks()) {
      Rank& mine = ranks_[static_cast<size_t>(rank)];
      signatures_[mine.worker] = signature;
      mine.before.busy += mine.stats.busy;
      mine.before.transfer += mine.stats.transfer;
      mine.stats = {};
    }
    return absl::OkStatus();
  }));
  return CheckSignatures(signatures_);
}

absl::Status RemoteGroup::Connect(uint64_t epoch) {
  ASSIGN_OR_RETURN(
      const std::unique_ptr<EpochGroups> groups,
      EpochGroups::Create(plan_, groups_, places_, absl::StrCat(name_, "-", epoch), epoch));
  const milliseconds bound = options_.join_timeout;
  groups->order().set_spin(spin_);
  groups->order().set_join_timeout_ms(static_cast<uint32_t>(bound.count()));
  const milliseconds patience = bound + kSuspicious;  // the workers' own bound comes first
  // What does not answer, or hangs in what was before, cannot go on as it is.
  const auto lose_late = [](RemoteWorker& worker, const absl::Status& status) {
    if (absl::IsDeadlineExceeded(status)) worker.Lose(status);
    return status;
  };
  Mutex adding;
  RETURN_IF_ERROR(ForAll([&](RemoteWorker& worker) {
    const auto prepared = worker.Prepare(groups->order(), patience);
    if (!prepared.ok()) return lose_late(worker, prepared.status());
    MutexLock lock(&adding);
    return groups->Add(*prepared);
  }));
  return ForAll([&](RemoteWorker& worker) {
    return lose_late(worker, worker.Connect(groups->order(), patience).status());
  });
}

absl::Status RemoteGroup::Begin(LoadProgress* progress) {
  constexpr int kAttempts = 3;  // for a worker that dies while the model is being loaded
  const auto end = std::chrono::steady_clock::now() + options_.start_timeout;
  const bool local = std::all_of(workers_.begin(), workers_.end(),
                                 [](const auto& worker) { return worker->local(); });
  absl::Status status;
  for (int attempt = 1;; ++attempt) {
    status = BringUp(progress);
    if (status.ok()) status = Restart();
    const bool in_time = attempt < kAttempts || (!local && std::chrono::steady_clock::now() < end);
    if (!(absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) || !in_time)
      return status;
    options_.log(absl::StrCat(status.message(), "; trying again"));
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
  for (const auto& worker : workers_) worker->LoseIfSilent(kSuspicious);
  absl::Status status = BringUp(nullptr);
  if (status.ok()) status = Connect(epoch);
  MutexLock lock(&mutex_);
  restarting_ = false;
  RETURN_IF_ERROR(status);
  if (!AllReady()) return lost_.ok() ? absl::UnavailableError("a worker was lost") : lost_;
  ledger_.Clear();
  for (Rank& rank : ranks_) rank.done = -1;
  failure_ = absl::OkStatus();
  return absl::OkStatus();
}

bool RemoteGroup::AllReady() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const auto& worker) { return worker->ready(); });
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
  for (const Rank& rank : ranks_) {
    const RemoteWorker& worker = *workers_[rank.worker];
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
