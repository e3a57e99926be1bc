#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace penstock {

// Where a worker is.
struct WorkerPlace {
  std::vector<int> ranks;    // that it runs
  std::string address = {};  // where it listens; empty: a process that the leader starts
};

// One replica's part of "HOST:PORT*RANKS,...;...": workers in the order of ranks, replicas divided
// by ";"; "*RANKS" may be left out for one. InvalidArgument when it cannot be read or has not
// `ranks` ranks in each of `replicas` replicas.
absl::StatusOr<std::vector<WorkerPlace>> ParseWorkerPlaces(const std::string& text, int ranks,
                                                           int replicas, int replica);

// "HOST:PORT,..."; empty: none.
absl::StatusOr<std::vector<std::string>> ParseSpares(const std::string& text);

}  // namespace penstock
