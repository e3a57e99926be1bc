#include "shard/remote/group_join.h"

#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shard/base/status_macros.h"
#include "shard/comm/gloo_comm.h"
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
  for (const Member& member : members)
    if (member.order->transport() == v1::TRANSPORT_TCP)
      RETURN_IF_ERROR(Listen(member, order, &addresses[member.at]));
  return addresses;
}

absl::Status GroupJoin::Listen(const Member& member, const v1::Connect& order,
                               v1::RankAddress* address) {
  const Key group(member.tensor, member.group);
  auto& join = network_[{group, member.rank}];
  ASSIGN_OR_RETURN(join, GlooJoin::Create(data_address_, NameOf(member), member.rank, member.size,
                                          order.epoch(), OptionsOf(member, order),
                                          std::chrono::milliseconds(order.join_timeout_ms())));
  *(member.tensor ? address->mutable_tensor() : address->mutable_pipeline()) = join->address();
  return absl::OkStatus();
}

absl::Status GroupJoin::JoinNetwork(const std::vector<Member>& members,
                                    std::vector<RankGroups>* joined) {
  std::vector<absl::Status> outcomes(members.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < members.size(); ++i) {
    const Member& member = members[i];
    if (member.order->transport() != v1::TRANSPORT_TCP) continue;
    const auto found = network_.find({Key(member.tensor, member.group), member.rank});
    if (found == network_.end()) {
      outcomes[i] = absl::FailedPreconditionError(absl::StrCat(NameOf(member), ": not prepared"));
      continue;
    }
    threads.emplace_back([&, i, join = found->second.get()] {
      const auto& addresses = members[i].order->addresses();
      auto communicator = join->Connect({addresses.begin(), addresses.end()});
      outcomes[i] = communicator.status();
      if (!communicator.ok()) return;
      RankGroups& groups = (*joined)[members[i].at];
      (members[i].tensor ? groups.tensor : groups.pipeline) = *std::move(communicator);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& outcome : outcomes) RETURN_IF_ERROR(outcome);
  return absl::OkStatus();
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
  RETURN_IF_ERROR(JoinNetwork(members, &joined));
  for (const Member& member : members) {
    if (member.order->transport() == v1::TRANSPORT_TCP) continue;
    ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator, JoinOne(member, order));
    RankGroups& groups = joined[member.at];
    (member.tensor ? groups.tensor : groups.pipeline) = std::move(communicator);
  }
  return joined;
}

}  // namespace penstock
