#pragma once

#include <functional>

#include "absl/status/statusor.h"

namespace penstock {

// Two ranks, each on a processor of its own, of which rank 0 says how many seconds it took.
using RankBody = std::function<double(int rank)>;

// As two threads of this process. Pins neither where there is one processor only.
double RunThreads(const RankBody& body);
// As this process and a child of it; what the body needs in both must exist already, or be joined
// by name. Internal when the child fails.
absl::StatusOr<double> RunProcesses(const RankBody& body);

}  // namespace penstock
