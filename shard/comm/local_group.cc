#include "shard/comm/local_group.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shard/base/detached_status.h"

namespace penstock {
namespace {

double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

int64_t LocalGroup::PieceElements(const LocalCommOptions& options) {
  constexpr int64_t kMost = 131072;  // 512 KiB: stays in caches; few enough waits per matrix
  return std::clamp<int64_t>(options.max_elements, 1, kMost);
}

LocalGroup::LocalGroup(std::string name, int size, const LocalCommOptions& options)
    : name_(std::move(name)),
      size_(size),
      options_(options),
      ranks_(static_cast<size_t>(size)),
      channels_(static_cast<size_t>(size * size)) {
  if (size == 1) return;
  const auto piece = static_cast<size_t>(PieceElements(options));
  for (Rank& rank : ranks_)
    for (Offer& offer : rank.offers) offer.values.resize(piece);
  for (const auto& [from, to] : options.links) {
    auto& channel = channels_[static_cast<size_t>(from * size + to)];
    channel = std::make_unique<Channel>();
    channel->slots.resize(static_cast<size_t>(options.send_depth));
    for (Channel::Slot& slot : channel->slots)
      slot.values.resize(static_cast<size_t>(options.max_elements));
  }
}

template <typename Condition>
bool LocalGroup::Await(Condition condition, double* waited) {
  const auto ready = [&] { return failed() || condition(); };
  if (ready()) return true;
  const auto begin = std::chrono::steady_clock::now();
  const bool met = signal_.Wait(ready, options_.spin, options_.timeout);
  *waited += Seconds(std::chrono::steady_clock::now() - begin);
  return met;
}

bool LocalGroup::Exchange(int rank, uint64_t round, double* waited) {
  ranks_[static_cast<size_t>(rank)].arrived.store(round + 1);
  signal_.Wake();
  const auto all_here = [&] {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [&](const Rank& each) { return each.arrived.load() > round; });
  };
  if (!Await(all_here, waited))
    Fail(absl::StatusCode::kDeadlineExceeded, rank, offer(rank, round).operation,
         absl::StrCat("no sign of rank ", Missing(round), " within ", options_.timeout.count(),
                      " ms"));
  if (failed()) return false;
  CheckAgreement(rank, round);
  return !failed();
}

std::string LocalGroup::Missing(uint64_t round) const {
  std::string ranks;
  for (size_t rank = 0; rank < ranks_.size(); ++rank)
    if (ranks_[rank].arrived.load() <= round)
      absl::StrAppend(&ranks, ranks.empty() ? "" : ", ", rank);
  return ranks;
}

void LocalGroup::CheckAgreement(int rank, uint64_t round) {
  const Offer& mine = offer(rank, round);
  for (int other = 0; other < size_; ++other) {
    const Offer& theirs = offer(other, round);
    if (std::strcmp(mine.operation, theirs.operation) == 0 && mine.rows == theirs.rows &&
        mine.cols == theirs.cols)
      continue;
    return Fail(absl::StatusCode::kInternal, rank, mine.operation,
                absl::StrCat(mine.rows, "x", mine.cols, " while rank ", other, " is at ",
                             theirs.operation, " of ", theirs.rows, "x", theirs.cols));
  }
}

LocalGroup::Channel* LocalGroup::channel(int from, int to) {
  if (from < 0 || from >= size_ || to < 0 || to >= size_) return nullptr;
  return channels_[static_cast<size_t>(from * size_ + to)].get();
}

bool LocalGroup::AwaitRoom(Channel& channel, int rank, int peer, double* waited) {
  const auto room = [&] {
    return channel.sent.load() - channel.received.load() < channel.slots.size();
  };
  if (!Await(room, waited))
    Fail(absl::StatusCode::kDeadlineExceeded, rank, "Send",
         absl::StrCat("rank ", peer, " has not received within ", options_.timeout.count(), " ms"));
  return !failed();
}

bool LocalGroup::AwaitMatrix(Channel& channel, int rank, int peer, double* waited) {
  const auto here = [&] { return channel.sent.load() > channel.received.load(); };
  if (!Await(here, waited))
    Fail(absl::StatusCode::kDeadlineExceeded, rank, "Recv",
         absl::StrCat("rank ", peer, " has not sent within ", options_.timeout.count(), " ms"));
  return !failed();
}

absl::Status LocalGroup::status() const {
  if (!failed()) return absl::OkStatus();
  MutexLock lock(&mutex_);
  return Detached(failure_);
}

void LocalGroup::Fail(const absl::Status& why) {
  {
    MutexLock lock(&mutex_);
    if (failure_.ok()) failure_ = Detached(why);
  }
  failed_.store(true);
  signal_.Wake();
}

void LocalGroup::Fail(absl::StatusCode code, int rank, const char* operation,
                      const std::string& what) {
  Fail(absl::Status(code, absl::StrCat(name_, " group, rank ", rank, ", ", operation, ": ", what)));
}

}  // namespace penstock
