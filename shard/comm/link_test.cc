#include "shard/comm/link_test.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "absl/strings/str_cat.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

// Neighbouring words, ranks and rounds have little in common.
int32_t Pattern(int rank, int round, int64_t at) {
  uint64_t value = static_cast<uint64_t>(at) * 0x9e3779b97f4a7c15 +
                   static_cast<uint64_t>(rank) * 0xbf58476d1ce4e5b9 + static_cast<uint64_t>(round);
  value ^= value >> 29;
  return static_cast<int32_t>(value * 0x94d049bb133111eb >> 32);
}

// The seconds of one exchange.
absl::StatusOr<double> Exchange(Communicator& group, int64_t elements, int round) {
  std::vector<int32_t> mine(static_cast<size_t>(elements));
  std::vector<int32_t> all(mine.size() * static_cast<size_t>(group.size()));
  for (int64_t i = 0; i < elements; ++i)
    mine[static_cast<size_t>(i)] = Pattern(group.rank(), round, i);
  const auto begin = std::chrono::steady_clock::now();
  group.AllGather({mine.data(), 1, elements, elements, DType::kI32},
                  {all.data(), group.size(), elements, elements, DType::kI32});
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  RETURN_IF_ERROR(group.status());
  for (int rank = 0; rank < group.size(); ++rank)
    for (int64_t i = 0; i < elements; ++i)
      if (all[static_cast<size_t>(rank * elements + i)] != Pattern(rank, round, i))
        return absl::DataLossError(
            absl::StrCat("link test: rank ", group.rank(), " has not received what rank ", rank,
                         " of the group sent, at byte ", 4 * i, " of ", 4 * elements));
  return taken.count();
}

// The best of some exchanges: what the link can do, whatever else the host is doing.
absl::StatusOr<double> Best(Communicator& group, int64_t elements, int rounds) {
  double best = 1e9;
  for (int round = 0; round < rounds; ++round) {
    ASSIGN_OR_RETURN(const double seconds, Exchange(group, elements, round));
    best = std::min(best, seconds);
  }
  return std::max(best, 1e-9);
}

}  // namespace

absl::StatusOr<LinkSpeed> TestLinks(Communicator& group, int64_t most) {
  if (group.size() == 1) return LinkSpeed();
  constexpr int64_t kLarge = 1 << 18;
  const int64_t large = std::clamp<int64_t>(most, 1, kLarge);
  ASSIGN_OR_RETURN(const double small_seconds, Best(group, 1, 10));
  ASSIGN_OR_RETURN(const double large_seconds, Best(group, large, 3));
  return LinkSpeed{
      .latency_us = small_seconds * 1e6,
      .bytes_per_second = static_cast<double>(4 * large * (group.size() - 1)) / large_seconds};
}

}  // namespace penstock
