#pragma once

#include <vector>

#include "cli/bench/request_record.h"
#include "cli/bench/summary.h"

namespace penstock {

// A run over time, in bins of equal width; the last one ends with the run and may be narrower or
// wider. Every request counts here, whatever became of it.
struct LoadSeries {
  struct Bin {
    double begin = 0, end = 0;  // seconds since the run's start
    double output_tokens_per_s = 0;
    double inputs_per_s = 0;  // of requests that succeeded in this bin
    double running = 0;       // mean number of calls in flight
    double middle() const { return (begin + end) / 2; }
  };
  std::vector<Bin> bins;
};
LoadSeries BuildLoadSeries(const std::vector<RequestRecord>& records, const BenchSummary& summary);

}  // namespace penstock
