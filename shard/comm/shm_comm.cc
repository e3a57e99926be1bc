#include "shard/comm/shm_comm.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "shard/base/status_macros.h"
#include "shard/comm/group_comm.h"
#include "shard/comm/group_member.h"
#include "shard/comm/shm_segment.h"

namespace penstock {
namespace {

// The group in a segment, checked.
absl::StatusOr<GroupBlock> OpenGroup(const std::string& segment, int size, uint64_t epoch,
                                     const ShmCommOptions& options) {
  ASSIGN_OR_RETURN(Segment mapped, MapSegment(segment, GroupBlock::kLeastBytes));
  const GroupBlock block(std::move(mapped.memory), size, options);
  RETURN_IF_ERROR(block.Check(SegmentName(segment), epoch, mapped.bytes));
  return block;
}

}  // namespace

int64_t ShmGroupBytes(int size, const ShmCommOptions& options) {
  return GroupBlock::Bytes(size, options);
}

absl::Status CreateShmGroup(const std::string& segment, int size, uint64_t epoch,
                            const ShmCommOptions& options) {
  ASSIGN_OR_RETURN(std::shared_ptr<void> memory,
                   CreateSegment(segment, GroupBlock::Bytes(size, options)));
  GroupBlock(std::move(memory), size, options).Format(epoch);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Communicator>> JoinShmGroup(const std::string& segment,
                                                           const std::string& group, int rank,
                                                           int size, uint64_t epoch,
                                                           const ShmCommOptions& options) {
  if (rank < 0 || rank >= size)
    return absl::InvalidArgumentError(
        absl::StrCat(group, " group has no rank ", rank, " of ", size));
  ASSIGN_OR_RETURN(GroupBlock block, OpenGroup(segment, size, epoch, options));
  if (block.rank(rank).joined.exchange(1) != 0)
    return absl::FailedPreconditionError(absl::StrCat(
        SegmentName(segment), ": somebody has joined the ", group, " group as rank ", rank));
  return MakeGroupComm(std::move(block), group, rank, options);
}

absl::Status AbortShmGroup(const std::string& segment, int size, uint64_t epoch,
                           const ShmCommOptions& options, const absl::Status& why) {
  ASSIGN_OR_RETURN(const GroupBlock block, OpenGroup(segment, size, epoch, options));
  if (block.failure(size).taken.exchange(1) == 0)
    FailGroup(block, size, why.ok() ? absl::CancelledError("aborted") : why);
  return absl::OkStatus();
}

absl::Status RemoveShmGroup(const std::string& segment) { return RemoveSegment(segment); }

}  // namespace penstock
