#include "shard/comm/local_group.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace penstock {
namespace {

double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

LocalGroup::LocalGroup(std::string name, int size, const LocalCommOptions& options)
    : name_(std::move(name)),
      size_(size),
      options_(options),
      offered_(static_cast<size_t>(size)),
      arrived_(static_cast<size_t>(size)) {
  const auto elements = static_cast<size_t>(size > 1 ? options.max_elements : 0);
  for (auto& sum : sums_) sum.resize(elements);
  for (int pair = 0; pair < size * size; ++pair) {
    auto channel = std::make_unique<Channel>();
    const int distance = pair % size - pair / size;  // only neighbours talk, in either direction
    if (distance == 1 || distance == -1) {
      channel->slots.resize(static_cast<size_t>(options.send_depth));
      for (auto& slot : channel->slots) slot.resize(elements);
    }
    channels_.push_back(std::move(channel));
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

bool LocalGroup::Barrier(int rank, const char* operation, double* waited) {
  const uint64_t round = arrived_[static_cast<size_t>(rank)].fetch_add(1) + 1;
  signal_.Wake();
  const auto all_here = [&] {
    for (const auto& arrived : arrived_)
      if (arrived.load() < round) return false;
    return true;
  };
  if (!Await(all_here, waited))
    Fail(Error(absl::StatusCode::kDeadlineExceeded, rank, operation,
               absl::StrCat("no sign of rank ", Missing(round), " within ",
                            options_.timeout.count(), " ms")));
  return !failed();
}

std::string LocalGroup::Missing(uint64_t round) const {
  std::string ranks;
  for (size_t rank = 0; rank < arrived_.size(); ++rank)
    if (arrived_[rank].load() < round) absl::StrAppend(&ranks, ranks.empty() ? "" : ", ", rank);
  return ranks;
}

bool LocalGroup::AwaitRoom(Channel& channel, int rank, int peer, double* waited) {
  const auto room = [&] {
    return channel.sent.load() - channel.received.load() < channel.slots.size();
  };
  if (!Await(room, waited))
    Fail(Error(
        absl::StatusCode::kDeadlineExceeded, rank, "Send",
        absl::StrCat("rank ", peer, " has not received within ", options_.timeout.count(), " ms")));
  return !failed();
}

bool LocalGroup::AwaitMatrix(Channel& channel, int rank, int peer, double* waited) {
  const auto here = [&] { return channel.sent.load() > channel.received.load(); };
  if (!Await(here, waited))
    Fail(Error(
        absl::StatusCode::kDeadlineExceeded, rank, "Recv",
        absl::StrCat("rank ", peer, " has not sent within ", options_.timeout.count(), " ms")));
  return !failed();
}

absl::Status LocalGroup::status() const {
  MutexLock lock(&mutex_);
  return failure_;
}

void LocalGroup::Fail(absl::Status why) {
  {
    MutexLock lock(&mutex_);
    failure_.Update(std::move(why));
  }
  failed_.store(true);
  signal_.Wake();
}

absl::Status LocalGroup::Error(absl::StatusCode code, int rank, const char* operation,
                               const std::string& what) const {
  return absl::Status(code,
                      absl::StrCat(name_, " group, rank ", rank, ", ", operation, ": ", what));
}

}  // namespace penstock
