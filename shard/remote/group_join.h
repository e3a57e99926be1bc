#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/penstock/v1/shard.pb.h"
#include "shard/comm/comm_options.h"
#include "shard/comm/communicator.h"
#include "shard/comm/gloo_comm.h"
#include "shard/memory_plan.h"
#include "shard/model/shard_plan.h"

namespace penstock {

// How one worker's ranks join the groups of one epoch. Used by one thread.
class GroupJoin {
 public:
  struct RankGroups {
    std::unique_ptr<Communicator> tensor, pipeline;
  };

  // `groups` as PlanGroups() says, with the timeout of a step; `data_address`: of the interface
  // that groups over the network listen on.
  GroupJoin(const ShardPlan& plan, const GroupOptions& groups, const std::vector<int>& ranks,
            std::string data_address)
      : plan_(plan), groups_(groups), ranks_(ranks), data_address_(std::move(data_address)) {}

  // Opens the ends of the groups that go over the network.
  absl::StatusOr<std::vector<v1::RankAddress>> Prepare(const v1::Connect& order);
  // Parallel to `ranks`. InvalidArgument for an order that does not fit the plan; errors of the
  // groups otherwise, DeadlineExceeded when a peer is not there within the order's bound.
  absl::StatusOr<std::vector<RankGroups>> Join(const v1::Connect& order);

 private:
  // One rank's membership of one group.
  struct Member {
    size_t at = 0;  // in ranks_
    bool tensor = false;
    int group = 0;  // the stage, or the tensor rank
    int rank = 0;   // in the group
    int size = 0;
    const v1::Group* order = nullptr;
  };
  absl::StatusOr<std::vector<Member>> Members(const v1::Connect& order) const;
  absl::StatusOr<std::unique_ptr<Communicator>> JoinOne(const Member& member,
                                                        const v1::Connect& order);
  absl::Status Listen(const Member& member, const v1::Connect& order, v1::RankAddress* address);
  // All that go over the network at once, since each waits for the others.
  absl::Status JoinNetwork(const std::vector<Member>& members, std::vector<RankGroups>* joined);
  absl::StatusOr<std::unique_ptr<Communicator>> JoinLocal(const Member& member,
                                                          const CommOptions& options);
  CommOptions OptionsOf(const Member& member, const v1::Connect& order) const;
  static std::string NameOf(const Member& member);
  using Key = std::pair<bool, int>;  // Member::tensor, Member::group

  const ShardPlan plan_;
  const GroupOptions groups_;
  const std::vector<int> ranks_;
  const std::string data_address_;
  std::map<Key, std::vector<std::unique_ptr<Communicator>>> local_;   // not yet given out
  std::map<std::pair<Key, int>, std::unique_ptr<GlooJoin>> network_;  // and the rank in the group
};

}  // namespace penstock
