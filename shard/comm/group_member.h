#pragma once

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "shard/base/mutex.h"
#include "shard/comm/group_block.h"

namespace penstock {

// Fails a group for `why`, told in failure(index), which must be the caller's and not have been
// used before. The first failure of a group counts.
void FailGroup(const GroupBlock& block, int index, const absl::Status& why);

// One rank's part in a group: meeting the others, waiting with a bound, and telling that something
// is wrong. Waiting belongs to the rank's thread; status() and Fail() are thread-safe.
class GroupMember {
 public:
  GroupMember(GroupBlock block, std::string name, int rank, const CommOptions& options);

  int rank() const { return rank_; }
  int size() const { return block_.size(); }
  const CommOptions& options() const { return options_; }
  const GroupBlock& block() const { return block_; }
  double waited() const { return waited_; }

  // Shows this rank's offer of the next round, whose values are written, and waits until every rank
  // has shown its own and agrees. False when the group has failed.
  bool Meet(const GroupBlock::Offer& offer);
  uint64_t round() const { return round_; }  // rounds met so far: the next one's index

  // Waits until the channel has room (or, for a receiver, a matrix). False when the group has
  // failed.
  bool AwaitRoom(const GroupBlock::Channel& channel);
  bool AwaitMatrix(const GroupBlock::Channel& channel);
  void Wake() { block_.signal().Wake(); }

  bool failed() const { return block_.failed().load() != 0; }
  absl::Status status() const;
  void Fail(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);
  void Fail(absl::StatusCode code, const char* operation, const std::string& what);

 private:
  template <typename Condition>
  bool Await(Condition condition);
  std::string Missing() const;
  void CheckAgreement(const GroupBlock::Offer& mine);

  const GroupBlock block_;
  const std::string name_;
  const int rank_;
  const CommOptions options_;
  uint64_t round_ = 0;
  double waited_ = 0;  // seconds
  Mutex mutex_;
  bool told_ ABSL_GUARDED_BY(mutex_) = false;  // whether this rank's failure() is used
};

}  // namespace penstock
