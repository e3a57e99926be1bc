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

  // Most elements of one Offer.
  static int64_t PieceElements(const LocalCommOptions& options);

  // What a rank shows to the others in one round. Ranks must agree about all but the values.
  struct Offer {
    const char* operation = "";
    int64_t rows = 0, cols = 0;  // of the whole matrix
    std::vector<float> values;   // or any other type's bytes
  };
  // A rank writes its own before Exchange() and reads all of them after it. Two take turns: who
  // writes the next but one has passed the next Exchange(), so that everyone has read this one.
  Offer& offer(int rank, uint64_t round) {
    return ranks_[static_cast<size_t>(rank)].offers[round % 2];
  }
  // Waits until every rank has made its offer of this round, counted from 0. False when the group
  // has failed.
  bool Exchange(int rank, uint64_t round, double* waited);

  // The way from one rank to another.
  struct Channel {
    struct Slot {
      int64_t rows = 0, cols = 0;
      std::vector<float> values;
    };
    std::atomic<uint64_t> sent{0}, received{0};
    std::vector<Slot> slots;
    Slot& slot(uint64_t count) { return slots[count % slots.size()]; }
  };
  Channel* channel(int from, int to);  // null without such a link
  // Waits until the channel has room (or, for a receiver, a matrix). False when the group has
  // failed.
  bool AwaitRoom(Channel& channel, int rank, int peer, double* waited);
  bool AwaitMatrix(Channel& channel, int rank, int peer, double* waited);
  void Wake() { signal_.Wake(); }

  bool failed() const { return failed_.load(); }
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mutex_);
  void Fail(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);  // the first one counts
  void Fail(absl::StatusCode code, int rank, const char* operation, const std::string& what);

 private:
  struct alignas(64) Rank {
    std::atomic<uint64_t> arrived{0};  // exchanges it has reached
    std::array<Offer, 2> offers;
  };

  template <typename Condition>
  bool Await(Condition condition, double* waited);
  std::string Missing(uint64_t count) const;
  void CheckAgreement(int rank, uint64_t round);

  const std::string name_;
  const int size_;
  const LocalCommOptions options_;
  std::vector<Rank> ranks_;
  std::vector<std::unique_ptr<Channel>> channels_;  // [from * size + to], null without a link

  Signal signal_;
  std::atomic<bool> failed_{false};
  mutable Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace penstock
