#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/penstock/v1/shard.pb.h"
#include "shard/base/mutex.h"
#include "shard/checkpoint/checkpoint.h"
#include "shard/load_shards.h"
#include "shard/remote/group_join.h"
#include "shard/remote/load_order.h"
#include "shard/remote/rank_runner.h"

namespace penstock {

struct WorkerOptions {
  std::string build;                       // leader and worker must be of the same
  std::string model_path;                  // instead of the leader's; empty: the same
  std::string data_address = "127.0.0.1";  // of the interface for activations
};

// What a worker does for one leader: its ranks, once loaded, and the answers to messages. Knows
// nothing of the transport. Handle() belongs to one thread.
class WorkerSession {
 public:
  // Sends to the leader; called from any thread, one call at a time.
  using Send = std::function<void(const v1::WorkerMessage& message)>;

  WorkerSession(WorkerOptions options, Send send);
  ~WorkerSession();

  // An error ends the session: the message was out of order, malformed, or of a leader that cannot
  // be worked with. What merely fails (loading, joining, a step) is answered instead.
  absl::Status Handle(const v1::LeaderMessage& message);

 private:
  absl::Status OnHello(const v1::Hello& hello);
  absl::Status OnLoad(const v1::Load& load);
  absl::Status OnPrepare(const v1::Connect& order);
  absl::Status OnConnect(const v1::Connect& order);
  absl::Status OnRun(const v1::Step& message);
  void OnAbort(const v1::AbortSteps& abort);

  absl::Status LoadRanks(LoadOrder order) ABSL_LOCKS_EXCLUDED(loading_);
  absl::Status CheckEpoch(uint64_t epoch) const;
  absl::Status Join(const v1::Connect& order, v1::Connected* answer);
  absl::Status TestGroups(std::vector<GroupJoin::RankGroups>& groups, v1::Connected* answer);
  void OnDone(int rank, uint64_t epoch, const absl::StatusOr<StepResult>& share,
              const StageStats& stats);
  void SendOne(const v1::WorkerMessage& message) ABSL_LOCKS_EXCLUDED(sending_);
  // Tells the leader regularly that the worker lives, and how far it has come with loading.
  void Pulse() ABSL_LOCKS_EXCLUDED(loading_);
  void SendProgress() ABSL_EXCLUSIVE_LOCKS_REQUIRED(loading_);

  const WorkerOptions options_;
  const Send send_;
  Mutex sending_;
  bool greeted_ = false;
  uint64_t epoch_ = 0;
  bool connected_ = false;
  ModelSpec spec_;
  ShardPlan plan_;
  LoadOrder order_;
  std::string signature_;
  std::unique_ptr<GroupJoin> join_;                   // of the epoch that is being prepared
  std::vector<std::unique_ptr<RankRunner>> runners_;  // parallel to order_.ranks

  Mutex loading_;
  bool ended_ ABSL_GUARDED_BY(loading_) = false;
  std::vector<int> loading_ranks_ ABSL_GUARDED_BY(loading_);
  std::unique_ptr<LoadProgress> progress_ ABSL_GUARDED_BY(loading_);  // while loading
  std::thread pulse_;
};

}  // namespace penstock
