#include "shard/comm/group_member.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace penstock {

void FailGroup(const GroupBlock& block, int index, const absl::Status& why) {
  GroupBlock::Failure& failure = block.failure(index);
  failure.code = static_cast<int32_t>(why.code());
  const size_t length = std::min(why.message().size(), failure.text.size() - 1);
  std::memcpy(failure.text.data(), why.message().data(), length);
  failure.text[length] = '\0';
  uint32_t none = 0;
  block.failed().compare_exchange_strong(none, static_cast<uint32_t>(index) + 1);
  block.signal().Wake();
}

GroupMember::GroupMember(GroupBlock block, std::string name, int rank, const CommOptions& options)
    : block_(std::move(block)), name_(std::move(name)), rank_(rank), options_(options) {}

template <typename Condition>
bool GroupMember::Await(Condition condition) {
  const auto ready = [&] { return failed() || condition(); };
  if (ready()) return true;
  const auto begin = std::chrono::steady_clock::now();
  const bool met = block_.signal().Wait(ready, options_.spin, options_.timeout);
  waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return met;
}

bool GroupMember::Meet(const GroupBlock::Offer& offer) {
  GroupBlock::Rank& mine = block_.rank(rank_);
  mine.offers[round_ % 2] = offer;
  mine.arrived.store(round_ + 1);
  Wake();
  const auto all_here = [&] {
    for (int rank = 0; rank < size(); ++rank)
      if (block_.rank(rank).arrived.load() <= round_) return false;
    return true;
  };
  if (!Await(all_here))
    Fail(absl::StatusCode::kDeadlineExceeded, NameOf(offer.meeting),
         absl::StrCat("no sign of rank ", Missing(), " within ", options_.timeout.count(), " ms"));
  if (failed()) return false;
  CheckAgreement(offer);
  ++round_;
  return !failed();
}

std::string GroupMember::Missing() const {
  std::string ranks;
  for (int rank = 0; rank < size(); ++rank)
    if (block_.rank(rank).arrived.load() <= round_)
      absl::StrAppend(&ranks, ranks.empty() ? "" : ", ", rank);
  return ranks;
}

void GroupMember::CheckAgreement(const GroupBlock::Offer& mine) {
  for (int other = 0; other < size(); ++other) {
    const GroupBlock::Offer& theirs = block_.rank(other).offers[round_ % 2];
    if (mine.meeting == theirs.meeting && mine.rows == theirs.rows && mine.cols == theirs.cols)
      continue;
    return Fail(absl::StatusCode::kInternal, NameOf(mine.meeting),
                absl::StrCat(mine.rows, "x", mine.cols, " while rank ", other, " is at ",
                             NameOf(theirs.meeting), " of ", theirs.rows, "x", theirs.cols));
  }
}

bool GroupMember::AwaitRoom(const GroupBlock::Channel& channel) {
  const auto depth = static_cast<uint64_t>(options_.send_depth);
  if (!Await([&] { return channel.sent.load() - channel.received.load() < depth; }))
    Fail(absl::StatusCode::kDeadlineExceeded, "Send",
         absl::StrCat("rank ", channel.to, " has not received within ", options_.timeout.count(),
                      " ms"));
  return !failed();
}

bool GroupMember::AwaitMatrix(const GroupBlock::Channel& channel) {
  if (!Await([&] { return channel.sent.load() > channel.received.load(); }))
    Fail(absl::StatusCode::kDeadlineExceeded, "Recv",
         absl::StrCat("rank ", channel.from, " has not sent within ", options_.timeout.count(),
                      " ms"));
  return !failed();
}

absl::Status GroupMember::status() const {
  const uint32_t failed = block_.failed().load();
  if (failed == 0) return absl::OkStatus();
  const GroupBlock::Failure& failure = block_.failure(static_cast<int>(failed) - 1);
  return absl::Status(static_cast<absl::StatusCode>(failure.code), failure.text.data());
}

void GroupMember::Fail(const absl::Status& why) {
  MutexLock lock(&mutex_);
  if (!std::exchange(told_, true)) FailGroup(block_, rank_, why);
}

void GroupMember::Fail(absl::StatusCode code, const char* operation, const std::string& what) {
  Fail(
      absl::Status(code, absl::StrCat(name_, " group, rank ", rank_, ", ", operation, ": ", what)));
}

}  // namespace penstock
