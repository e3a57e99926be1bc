#include "shard/remote/group_join.h"

#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shard/base/status_macros.h"
#include "shard/comm/local_comm.h"
#include "shard/comm/shm_comm.h"

namespace penstock {

std::string GroupJoin::NameOf(const Member& member) {
  return member.tensor ? absl::StrCat("tensor (stage ", member.group, ")")
                       : absl::StrCat("pipeline (tensor rank ", member.group, ")");
}

CommOptions GroupJoin::OptionsOf(const Member& member, const v1::Connect& order) const {
  CommOptions options = member.tensor ? groups_.tensor : groups_.pipeline;
  options.spin = order.spin();
  return options;
}

absl::StatusOr<std::vector<GroupJoin::Member>> GroupJoin::Members(const v1::Connect& order) const {
  if (order.tensor_size() != plan_.pipeline() || order.pipeline_size() != plan_.tensor())
    return absl::InvalidArgumentError("connect: not one entry per group");
  std::vector<Member> members;
  for (size_t at = 0; at < ranks_.size(); ++at) {
    const int stage = plan_.stage(ranks_[at]), part = plan_.tensor_rank(ranks_[at]);
    members.push_back({.at = at,
                       .tensor = true,
                       .group = stage,
                       .rank = part,
                       .size = plan_.tensor(),
                       .order = &order.tensor(stage)});
    members.push_back({.at = at,
                       .tensor = false,
                       .group = part,
                       .rank = stage,
                       .size = plan_.pipeline(),
                       .order = &order.pipeline(part)});
  }
  return members;
}

absl::StatusOr<std::vector<v1::RankAddress>> GroupJoin::Prepare(const v1::Connect& order) {
  ASSIGN_OR_RETURN(const std::vector<Member> members, Members(order));
  std::vector<v1::RankAddress> addresses(ranks_.size());
  for (size_t at = 0; at < ranks_.size(); ++at)
    addresses[at].set_rank(static_cast<uint32_t>(ranks_[at]));
  return addresses;
}

absl::StatusOr<std::unique_ptr<Communicator>> GroupJoin::JoinLocal(const Member& member,
                                                                   const CommOptions& options) {
  auto [found, added] = local_.try_emplace({member.tensor, member.group});
  if (added) found->second = MakeLocalGroup(NameOf(member), member.size, options);
  return std::move(found->second[static_cast<size_t>(member.rank)]);
}

absl::StatusOr<std::unique_ptr<Communicator>> GroupJoin::JoinOne(const Member& member,
                                                                 const v1::Connect& order) {
  const CommOptions options = OptionsOf(member, order);
  switch (member.order->transport()) {
    case v1::TRANSPORT_LOCAL: return JoinLocal(member, options);
    case v1::TRANSPORT_SHM:
      return JoinShmGroup(member.order->segment(), NameOf(member), member.rank, member.size,
                          order.epoch(), options);
    default:
      return absl::InvalidArgumentError(
          absl::StrCat(NameOf(member), ": no transport ", member.order->transport()));
  }
}

absl::StatusOr<std::vector<GroupJoin::RankGroups>> GroupJoin::Join(const v1::Connect& order) {
  ASSIGN_OR_RETURN(const std::vector<Member> members, Members(order));
  std::vector<RankGroups> joined(ranks_.size());
  for (const Member& member : members) {
    ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator, JoinOne(member, order));
    RankGroups& groups = joined[member.at];
    (member.tensor ? groups.tensor : groups.pipeline) = std::move(communicator);
  }
  return joined;
}

}  // namespace penstock
