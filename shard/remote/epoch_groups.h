#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/penstock/v1/shard.pb.h"
#include "shard/memory_plan.h"
#include "shard/model/shard_plan.h"

namespace penstock {

// The groups of one epoch as the leader arranges them: a group within one worker is a matter of its
// own, one among workers of the leader's host shares memory, any other uses the network.
class EpochGroups {
 public:
  struct Place {  // of a rank
    int worker = 0;
    bool local = false;  // on the leader's host
  };
  // Makes the shared segments, whose names begin with `prefix` and are removed with this object.
  static absl::StatusOr<std::unique_ptr<EpochGroups>> Create(const ShardPlan& plan,
                                                             const GroupOptions& groups,
                                                             const std::vector<Place>& places,
                                                             const std::string& prefix,
                                                             uint64_t epoch);
  ~EpochGroups();

  // What the workers are told; complete once all have prepared.
  v1::Connect& order() { return order_; }
  // Where a worker's ranks listen. Internal for an answer that does not fit.
  absl::Status Add(const v1::Prepared& prepared);

 private:
  EpochGroups(const ShardPlan& plan, const GroupOptions& groups) : plan_(plan), groups_(groups) {}
  absl::Status Arrange(const std::vector<int>& ranks, const std::vector<Place>& places, bool tensor,
                       const std::string& segment, v1::Group* group);

  const ShardPlan plan_;
  const GroupOptions groups_;
  std::vector<std::string> segments_;
  v1::Connect order_;
};

}  // namespace penstock
