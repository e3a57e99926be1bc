#include "shard/remote/epoch_groups.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shard/base/status_macros.h"
#include "shard/comm/shm_comm.h"

namespace penstock {

absl::StatusOr<std::unique_ptr<EpochGroups>> EpochGroups::Create(const ShardPlan& plan,
                                                                 const GroupOptions& groups,
                                                                 const std::vector<Place>& places,
                                                                 const std::string& prefix,
                                                                 uint64_t epoch) {
  std::unique_ptr<EpochGroups> made(new EpochGroups(plan, groups));
  made->order_.set_epoch(epoch);
  for (int stage = 0; stage < plan.pipeline(); ++stage) {
    std::vector<int> ranks;
    for (int part = 0; part < plan.tensor(); ++part) ranks.push_back(stage * plan.tensor() + part);
    RETURN_IF_ERROR(made->Arrange(ranks, places, /*tensor=*/true,
                                  absl::StrCat(prefix, "-tensor-", stage),
                                  made->order_.add_tensor()));
  }
  for (int part = 0; part < plan.tensor(); ++part) {
    std::vector<int> ranks;
    for (int stage = 0; stage < plan.pipeline(); ++stage)
      ranks.push_back(stage * plan.tensor() + part);
    RETURN_IF_ERROR(made->Arrange(ranks, places, /*tensor=*/false,
                                  absl::StrCat(prefix, "-pipeline-", part),
                                  made->order_.add_pipeline()));
  }
  return made;
}

EpochGroups::~EpochGroups() {
  for (const std::string& segment : segments_) RemoveShmGroup(segment).IgnoreError();
}

absl::Status EpochGroups::Arrange(const std::vector<int>& ranks, const std::vector<Place>& places,
                                  bool tensor, const std::string& segment, v1::Group* group) {
  const auto place = [&](int rank) { return places[static_cast<size_t>(rank)]; };
  const auto all = [&](auto holds) { return std::all_of(ranks.begin(), ranks.end(), holds); };
  const auto size = static_cast<int>(ranks.size());
  if (all([&](int rank) { return place(rank).worker == place(ranks.front()).worker; })) {
    group->set_transport(v1::TRANSPORT_LOCAL);
    return absl::OkStatus();
  }
  if (!all([&](int rank) { return place(rank).local; })) {
    group->set_transport(v1::TRANSPORT_TCP);
    for (int i = 0; i < size; ++i) group->add_addresses();
    return absl::OkStatus();
  }
  group->set_transport(v1::TRANSPORT_SHM);
  group->set_segment(segment);
  RETURN_IF_ERROR(
      CreateShmGroup(segment, size, order_.epoch(), tensor ? groups_.tensor : groups_.pipeline));
  segments_.push_back(segment);
  return absl::OkStatus();
}

absl::Status EpochGroups::Add(const v1::Prepared& prepared) {
  for (const v1::RankAddress& address : prepared.addresses()) {
    if (address.rank() >= static_cast<uint32_t>(plan_.ranks()))
      return absl::InternalError(absl::StrCat("there is no rank ", address.rank()));
    const auto rank = static_cast<int>(address.rank());
    const int stage = plan_.stage(rank), part = plan_.tensor_rank(rank);
    if (order_.tensor(stage).transport() == v1::TRANSPORT_TCP)
      order_.mutable_tensor(stage)->set_addresses(part, address.tensor());
    if (order_.pipeline(part).transport() == v1::TRANSPORT_TCP)
      order_.mutable_pipeline(part)->set_addresses(stage, address.pipeline());
  }
  return absl::OkStatus();
}

}  // namespace penstock
