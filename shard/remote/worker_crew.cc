#include "shard/remote/worker_crew.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "shard/base/cpus.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSuspicious{2000};  // LoseSilent()

std::string UniqueName() {
  return absl::StrCat("penstock-", getpid(), "-", absl::Hex(std::random_device{}()));
}

// Whether each rank's threads have cores of their own.
bool HaveCores(const ShardPlan& plan, const v1::Load& load, int replicas) {
  const auto threads = static_cast<int>(load.cpu().threads());
  return threads > 0 && plan.ranks() * replicas * threads <= AvailableCpus();
}

}  // namespace

WorkerCrew::WorkerCrew(const ShardPlan& plan, const GroupOptions& groups, v1::Load load,
                       const RemoteGroupOptions& options, Told told)
    : plan_(plan),
      groups_(groups),
      load_(std::move(load)),
      options_(options),
      told_(std::move(told)),
      name_(UniqueName()),
      spin_(HaveCores(plan, load_, options.replicas)),
      places_(static_cast<size_t>(plan.ranks())),
      spares_(options.spares.begin(), options.spares.end()),
      signatures_(options.places.size()) {
  for (const WorkerPlace& place : options_.places) {
    const size_t index = workers_.size();
    workers_.push_back(std::make_unique<RemoteWorker>(
        place, options_.worker,
        RemoteWorker::Told{[this, index](const v1::StepDone& done) { told_.done(index, done); },
                           told_.lost}));
    for (const int rank : place.ranks)
      places_[static_cast<size_t>(rank)] = {static_cast<int>(index), workers_.back()->local()};
  }
}

absl::Status WorkerCrew::ForAll(const std::function<absl::Status(RemoteWorker& worker)>& act) {
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

absl::Status WorkerCrew::BringUp(LoadProgress* progress) {
  RETURN_IF_ERROR(ForAll([&](RemoteWorker& worker) {
    return worker.ready() ? absl::OkStatus() : Open(worker, progress);
  }));
  MutexLock lock(&mutex_);
  return CheckSignatures(signatures_);
}

absl::Status WorkerCrew::Open(RemoteWorker& worker, LoadProgress* progress) {
  const auto begin = std::chrono::steady_clock::now();
  v1::Load load = load_;
  for (const int rank : worker.ranks()) load.add_ranks(static_cast<uint32_t>(rank));
  if (!worker.local()) FitToHost(worker, &load);
  if (worker.opened() > 0) MoveToSpare(worker);
  absl::StatusOr<std::string> signature = worker.Open(load, progress);
  if (absl::IsUnavailable(signature.status()) && worker.opened() == 0) MoveToSpare(worker);
  RETURN_IF_ERROR(signature.status());
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  options_.log(absl::StrCat(worker.name(), " is ready after ", taken.count(), " s"));
  told_.opened(worker);
  MutexLock lock(&mutex_);
  signatures_[worker_of(worker.ranks().front())] = *std::move(signature);
  return absl::OkStatus();
}

// Whoever is lost may be back at its address later, so that is where to look last.
void WorkerCrew::MoveToSpare(RemoteWorker& worker) {
  if (worker.local()) return;
  MutexLock lock(&mutex_);
  if (spares_.empty()) return;
  spares_.push_back(worker.Move(spares_.front()));
  spares_.pop_front();
}

// Its CPUs and its memory are its own to look at.
void WorkerCrew::FitToHost(const RemoteWorker& worker, v1::Load* load) const {
  load->mutable_cpu()->set_threads(static_cast<uint32_t>(options_.cpu.threads));
  int64_t bytes = 0;
  for (const int rank : worker.ranks())
    bytes += options_.memory.ranks[static_cast<size_t>(rank)].total();
  load->set_needed_bytes(bytes);
}

absl::Status WorkerCrew::Connect(uint64_t epoch) {
  ASSIGN_OR_RETURN(
      const std::unique_ptr<EpochGroups> groups,
      EpochGroups::Create(plan_, groups_, places_, absl::StrCat(name_, "-", epoch), epoch));
  const milliseconds bound = options_.join_timeout;
  groups->order().set_spin(spin_);
  groups->order().set_join_timeout_ms(static_cast<uint32_t>(bound.count()));
  const milliseconds patience = bound + kSuspicious;  // the workers' own bound comes first
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
  groups->order().set_link_test(options_.link_test && !links_tested_);
  std::vector<v1::Link> links;
  RETURN_IF_ERROR(ForAll([&](RemoteWorker& worker) {
    const auto connected = worker.Connect(groups->order(), patience);
    if (!connected.ok()) return lose_late(worker, connected.status());
    MutexLock lock(&adding);
    links.insert(links.end(), connected->links().begin(), connected->links().end());
    return absl::OkStatus();
  }));
  if (groups->order().link_test()) LogLinks(links, groups->order());
  links_tested_ = true;
  return absl::OkStatus();
}

// One line per group, by the rank that is worst off.
void WorkerCrew::LogLinks(const std::vector<v1::Link>& links, const v1::Connect& order) const {
  struct Worst {
    double latency_us = 0, bytes_per_second = 1e18;
  };
  std::map<std::string, Worst> groups;
  constexpr const char* kTransports[] = {"one process", "shared memory", "TCP"};
  for (const v1::Link& link : links) {
    const auto rank = static_cast<int>(link.rank());
    if (rank >= plan_.ranks()) continue;
    const int stage = plan_.stage(rank), part = plan_.tensor_rank(rank);
    const v1::Group& group = link.tensor() ? order.tensor(stage) : order.pipeline(part);
    Worst& worst =
        groups[absl::StrCat(link.tensor() ? absl::StrCat("tensor group of stage ", stage)
                                          : absl::StrCat("pipeline group of tensor rank ", part),
                            ", ", kTransports[group.transport()])];
    worst.latency_us = std::max(worst.latency_us, link.latency_us());
    worst.bytes_per_second = std::min(worst.bytes_per_second, link.bytes_per_second());
  }
  for (const auto& [name, worst] : groups)
    options_.log(absl::StrFormat("links: %s: every bit as sent, %.0f us, %.2f GB/s", name,
                                 worst.latency_us, worst.bytes_per_second * 1e-9));
}

void WorkerCrew::Send(const v1::LeaderMessage& message) {
  for (const auto& worker : workers_) worker->Send(message);
}

void WorkerCrew::LoseSilent() {
  for (const auto& worker : workers_) worker->LoseIfSilent(kSuspicious);
}

void WorkerCrew::Tick(milliseconds since_last) {
  for (const auto& worker : workers_) worker->Tick(since_last);
}

void WorkerCrew::Interrupt() {
  for (const auto& worker : workers_) worker->Interrupt();
}

bool WorkerCrew::ready() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const auto& worker) { return worker->ready(); });
}

bool WorkerCrew::local() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const auto& worker) { return worker->local(); });
}

}  // namespace penstock
