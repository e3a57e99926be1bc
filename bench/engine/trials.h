#pragma once

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/base/status_macros.h"

namespace penstock {

// How much of the machine others have used since construction: the share of all processors' time
// that was neither idle nor this process's. 0 where the system does not tell.
class ForeignLoad {
 public:
  ForeignLoad();
  double Share() const;

 private:
  struct Times {
    double total = 0, busy = 0, own = 0;  // seconds of processors
  };
  static Times Read();

  const Times begin_;
};

// A trial counts while others use no more of the machine than this.
inline constexpr double kMostForeign = 0.05;

// The results of `count` undisturbed trials; when the machine is so busy that twice as many have
// not brought them, of all there were.
template <typename Result, typename Trial>
absl::StatusOr<std::vector<Result>> RunTrials(int count, Trial trial) {
  std::vector<Result> quiet, all;
  while (std::ssize(quiet) < count && std::ssize(all) < 2 * count) {
    const ForeignLoad load;
    ASSIGN_OR_RETURN(Result result, trial());
    const double foreign = load.Share();
    if (foreign <= kMostForeign) quiet.push_back(result);
    if (foreign > kMostForeign)
      std::printf("  (a trial disturbed: others used %.0f %% of the machine)\n", 100 * foreign);
    std::fflush(stdout);
    all.push_back(std::move(result));
  }
  return std::ssize(quiet) < count ? all : quiet;
}

// The median of a figure of each result.
template <typename Result, typename Figure>
double Median(const std::vector<Result>& results, Figure figure) {
  std::vector<double> values;
  for (const Result& result : results) values.push_back(figure(result));
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace penstock
