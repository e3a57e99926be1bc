#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/penstock/v1/shard.pb.h"
#include "shard/base/mutex.h"
#include "shard/load_shards.h"
#include "shard/memory_plan.h"
#include "shard/model/shard_plan.h"
#include "shard/remote/epoch_groups.h"
#include "shard/remote/remote_group.h"
#include "shard/remote/remote_worker.h"

namespace penstock {

// The workers of one replica: brought up, brought back, and joined to one another. BringUp() and
// Connect() belong to one thread at a time; the rest is thread-safe.
class WorkerCrew {
 public:
  // Told on threads of the connections'; may not block.
  struct Told {
    std::function<void(size_t worker, const v1::StepDone& done)> done;
    std::function<void(const absl::Status& why)> lost;       // `why` names the worker
    std::function<void(const RemoteWorker& worker)> opened;  // with nothing of what it was before
  };

  // `load` without the ranks.
  WorkerCrew(const ShardPlan& plan, const GroupOptions& groups, v1::Load load,
             const RemoteGroupOptions& options, Told told);

  // Opens those that are not ready, all at once. Errors name the worker: Unavailable for what may
  // be better later.
  absl::Status BringUp(LoadProgress* progress);
  // Joins all ranks to the groups of a new epoch; the first time, their links are tested. A worker
  // that is too late for that is lost.
  absl::Status Connect(uint64_t epoch);

  void Send(const v1::LeaderMessage& message);  // to all
  // What has been silent for a while when something is wrong is taken for what is wrong.
  void LoseSilent();
  void Tick(std::chrono::milliseconds since_last);  // as RemoteWorker's
  void Interrupt();                                 // a BringUp() in progress

  bool ready() const;  // all of them
  bool local() const;  // all of them are processes of this host
  size_t worker_of(int rank) const {
    return static_cast<size_t>(places_[static_cast<size_t>(rank)].worker);
  }
  const RemoteWorker& of_rank(int rank) const { return *workers_[worker_of(rank)]; }
  const RemoteWorker& worker(size_t index) const { return *workers_[index]; }

 private:
  absl::Status Open(RemoteWorker& worker, LoadProgress* progress) ABSL_LOCKS_EXCLUDED(mutex_);
  void FitToHost(const RemoteWorker& worker, v1::Load* load) const;
  void MoveToSpare(RemoteWorker& worker) ABSL_LOCKS_EXCLUDED(mutex_);
  void LogLinks(const std::vector<v1::Link>& links, const v1::Connect& order) const;
  // Does it for all workers at once; the first error, naming the worker.
  absl::Status ForAll(const std::function<absl::Status(RemoteWorker& worker)>& act);

  const ShardPlan plan_;
  const GroupOptions groups_;
  const v1::Load load_;
  const RemoteGroupOptions options_;
  const Told told_;
  const std::string name_;  // of the shared segments
  const bool spin_;
  std::vector<EpochGroups::Place> places_;  // by rank
  bool links_tested_ = false;
  Mutex mutex_;
  std::deque<std::string> spares_ ABSL_GUARDED_BY(mutex_);       // the next first
  std::vector<std::string> signatures_ ABSL_GUARDED_BY(mutex_);  // by worker
  std::vector<std::unique_ptr<RemoteWorker>> workers_;
};

}  // namespace penstock
