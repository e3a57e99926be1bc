#include "shard/remote/worker_places.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "shard/base/status_macros.h"

namespace penstock {

namespace {

absl::StatusOr<int> ParseCount(absl::string_view entry, absl::string_view text, int most) {
  int count = 0;
  if (absl::SimpleAtoi(text, &count) && count >= 1 && count <= most) return count;
  return absl::InvalidArgumentError(
      absl::StrCat("workers: \"", entry, "\" has \"", text, "\" ranks; a replica has ", most));
}

absl::StatusOr<std::vector<WorkerPlace>> ParseReplica(absl::string_view text, int ranks) {
  std::vector<WorkerPlace> places;
  int next = 0;
  for (const absl::string_view entry : absl::StrSplit(text, ',')) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(entry, absl::MaxSplits('*', 1));
    if (parts.first.find(':') == std::string::npos)
      return absl::InvalidArgumentError(
          absl::StrCat("workers: \"", entry,
                       "\" is none of threads, processes, auto, HOST:PORT and HOST:PORT*RANKS"));
    int count = 1;
    if (absl::StrContains(entry, '*')) {
      ASSIGN_OR_RETURN(count, ParseCount(entry, parts.second, ranks));
    }
    WorkerPlace& place = places.emplace_back();
    place.address = parts.first;
    for (int i = 0; i < count; ++i) place.ranks.push_back(next++);
  }
  if (next == ranks) return places;
  return absl::InvalidArgumentError(
      absl::StrCat("workers: \"", text, "\" runs ", next, " ranks, a replica has ", ranks));
}

}  // namespace

absl::StatusOr<std::vector<WorkerPlace>> ParseWorkerPlaces(const std::string& text, int ranks,
                                                           int replicas, int replica) {
  const std::vector<std::string> each = absl::StrSplit(text, ';');
  if (std::ssize(each) != replicas)
    return absl::InvalidArgumentError(absl::StrCat("workers: they are of ", each.size(),
                                                   " replicas, there are ", replicas,
                                                   " (those of each are divided by ';')"));
  return ParseReplica(each[static_cast<size_t>(replica)], ranks);
}

absl::StatusOr<std::vector<std::string>> ParseSpares(const std::string& text) {
  std::vector<std::string> spares = absl::StrSplit(text, ',', absl::SkipEmpty());
  for (const std::string& spare : spares)
    if (!absl::StrContains(spare, ':'))
      return absl::InvalidArgumentError(absl::StrCat("spares: \"", spare, "\" is not HOST:PORT"));
  return spares;
}

}  // namespace penstock
