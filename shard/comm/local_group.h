#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "shard/base/mutex.h"
#include "shard/comm/local_comm.h"
#include "shard/comm/signal.h"

namespace penstock {

// What the ranks of a local group share. Counters only grow, so that a rank's progress is one
// atomic and a wait says who is missing. Thread-safe.
class LocalGroup {
 public:
  LocalGroup(std::string name, int size, const LocalCommOptions& options);

  int size() const { return size_; }
  const LocalCommOptions& options() const { return options_; }

  // The matrix that a rank offers to the others from one barrier to the next.
  void Offer(int rank, Matrix matrix) { offered_[static_cast<size_t>(rank)] = matrix; }
  Matrix offered(int rank) const { return offered_[static_cast<size_t>(rank)]; }
  // Where the `round`th sum is put together; two take turns, so that a slow reader of one does not
  // hold up the next.
  float* sum(uint64_t round) { return sums_[round % 2].data(); }

  // False when the group has failed. `operation` is a literal.
  bool Barrier(int rank, const char* operation, double* waited);

  // The way from one rank to another: `depth` matrices that were sent and not yet received.
  struct Channel {
    std::atomic<uint64_t> sent{0}, received{0};
    std::vector<std::vector<float>> slots;
  };
  Channel& channel(int from, int to) { return *channels_[static_cast<size_t>(from * size_ + to)]; }
  // Waits until the channel has room (or, for a receiver, a matrix). False when the group has
  // failed.
  bool AwaitRoom(Channel& channel, int rank, int peer, double* waited);
  bool AwaitMatrix(Channel& channel, int rank, int peer, double* waited);
  void Wake() { signal_.Wake(); }

  bool failed() const { return failed_.load(); }
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mutex_);
  void Fail(absl::Status why) ABSL_LOCKS_EXCLUDED(mutex_);  // the first one counts
  absl::Status Error(absl::StatusCode code, int rank, const char* operation,
                     const std::string& what) const;

 private:
  template <typename Condition>
  bool Await(Condition condition, double* waited);
  std::string Missing(uint64_t round) const;

  const std::string name_;
  const int size_;
  const LocalCommOptions options_;
  std::vector<Matrix> offered_;
  std::array<std::vector<float>, 2> sums_;
  std::vector<std::atomic<uint64_t>> arrived_;  // barriers each rank has reached
  std::vector<std::unique_ptr<Channel>> channels_;

  Signal signal_;
  std::atomic<bool> failed_{false};
  mutable Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace penstock
