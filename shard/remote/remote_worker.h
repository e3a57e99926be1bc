#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/penstock/v1/shard.pb.h"
#include "shard/base/mutex.h"
#include "shard/load_shards.h"
#include "shard/remote/credentials.h"
#include "shard/remote/worker_link.h"
#include "shard/remote/worker_places.h"
#include "shard/remote/worker_process.h"

namespace penstock {

struct RemoteWorkerOptions {
  std::string build;
  std::string program;                    // to start workers with: `program shard --listen ...`
  std::string socket_directory = "/tmp";  // for a folder per worker that is being started
  ShardCredentials credentials;
  std::chrono::milliseconds dial_timeout{10000};  // until a worker answers
  std::chrono::milliseconds silence{10000};       // without a sign of life: lost
  std::chrono::milliseconds load_timeout{3600000};
};

// One worker as its leader sees it. It is opened (started or dialled, greeted, loaded), then told
// what to do; when it is lost it can be opened again. Opening and asking belong to one thread at a
// time; the rest is thread-safe.
class RemoteWorker {
 public:
  // Told on threads of the connection's; may not block.
  struct Told {
    std::function<void(const v1::StepDone& done)> done;
    // Once each time it was ready and is lost; `why` names it.
    std::function<void(const absl::Status& why)> lost;
  };

  RemoteWorker(WorkerPlace place, RemoteWorkerOptions options, Told told);
  ~RemoteWorker();  // ends the worker's session, and its process if it is ours

  const std::vector<int>& ranks() const { return ranks_; }
  bool local() const { return local_; }
  std::string name() const;  // for errors: "the worker of rank 3 (pid 123)"

  // Ends what there was and opens it anew. The signature that the ranks compute with. Unavailable
  // when it cannot be reached now. `progress`, by global rank, may be null.
  absl::StatusOr<std::string> Open(const v1::Load& load, LoadProgress* progress);

  // Of a worker elsewhere that is not ready: from now on it is sought there. Where it was before.
  std::string Move(const std::string& address) ABSL_LOCKS_EXCLUDED(mutex_);

  // Sends and waits for the answer, which must be of this epoch.
  absl::StatusOr<v1::Prepared> Prepare(const v1::Connect& order, std::chrono::milliseconds bound);
  absl::StatusOr<v1::Connected> Connect(const v1::Connect& order, std::chrono::milliseconds bound);

  void Send(v1::LeaderMessage message) ABSL_LOCKS_EXCLUDED(mutex_);  // never blocks
  // Takes it for lost, as if the connection had broken.
  void Lose(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);
  // Called regularly: how a worker that gives no sign of life is found.
  void Tick(std::chrono::milliseconds since_last) ABSL_LOCKS_EXCLUDED(mutex_);
  // For when something else is wrong already: lost if it has been silent for that long.
  void LoseIfSilent(std::chrono::milliseconds bound) ABSL_LOCKS_EXCLUDED(mutex_);
  void Interrupt() ABSL_LOCKS_EXCLUDED(mutex_);  // an Open() in progress fails

  bool ready() const ABSL_LOCKS_EXCLUDED(mutex_);  // loaded, and not lost since
  int64_t resident_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t opened() const ABSL_LOCKS_EXCLUDED(mutex_);  // how often it has become ready

 private:
  absl::Status Close() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status StartProcess() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Dial() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Greet() ABSL_LOCKS_EXCLUDED(mutex_);
  void RemoveSocket();
  absl::StatusOr<v1::WorkerMessage> Ask(v1::LeaderMessage message,
                                        v1::WorkerMessage::KindCase answer, const char* what,
                                        std::chrono::milliseconds bound)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void OnMessage(const v1::WorkerMessage& message) ABSL_LOCKS_EXCLUDED(mutex_);
  void NoteProgress(const v1::LoadProgress& progress) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Break(const grpc::Status& end) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::vector<int> ranks_;
  const bool local_;
  const RemoteWorkerOptions options_;
  const Told told_;

  std::string socket_;  // of a process of ours that is being started, as "unix:..."
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<WorkerProcess> process_;
  std::unique_ptr<WorkerLink> link_;

  mutable Mutex mutex_;
  std::string address_ ABSL_GUARDED_BY(mutex_);            // empty: a process of ours
  WorkerLink* sending_ ABSL_GUARDED_BY(mutex_) = nullptr;  // link_, while it may be used
  int pid_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
  bool interrupted_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);  // the connection; its process may tell why
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);
  std::optional<v1::WorkerMessage> answer_ ABSL_GUARDED_BY(mutex_);
  LoadProgress* progress_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::chrono::milliseconds silent_ ABSL_GUARDED_BY(mutex_){0};
  int64_t resident_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t opened_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace penstock
