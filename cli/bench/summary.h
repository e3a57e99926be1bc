#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "cli/bench/request_record.h"
#include "cli/bench/slo.h"

namespace penstock {

// Of a set of values: the nearest-rank percentiles (the smallest value that at least p percent of
// all do not exceed). All 0 when the set is empty.
struct Percentiles {
  int64_t count = 0;
  double p50 = 0, p90 = 0, p95 = 0, p99 = 0, max = 0, mean = 0;
};
Percentiles Summarize(std::vector<double> values);

// The latencies of successful requests, in seconds; `gaps` holds each time between neighbouring
// messages with tokens, the others one value per request that has it.
struct LatencySamples {
  std::vector<double> ttft, gaps, tpot, e2e, queue, lateness;
};
LatencySamples CollectLatencies(const std::vector<RequestRecord>& records);

// A latency by the name it has in reports.
struct NamedLatency {
  const char* name;     // in the JSON report
  const char* title;    // for people
  const char* meaning;  // the counting rule in a line
  Percentiles seconds;
};

struct BenchSummary {
  int64_t succeeded = 0, failed = 0, cut_off = 0;
  // From the first request's intended start to the last one's end, cut off ones left out.
  absl::Duration begin, end;
  // Of successful requests.
  int64_t inputs = 0, prompt_tokens = 0, cached_prompt_tokens = 0, output_tokens = 0;
  std::vector<NamedLatency> latencies;  // those that exist
  struct Failure {
    int64_t count = 0;
    std::string first_message;
  };
  std::map<std::string, Failure> failures;  // by the code's name
  Slo slo;
  int64_t met_slo = 0;  // requests

  int64_t finished() const { return succeeded + failed; }
  double seconds() const { return absl::ToDoubleSeconds(end - begin); }
  double PerSecond(int64_t count) const;
  // Of the finished requests; a failed one has not met its objectives.
  double slo_share() const;
};
BenchSummary SummarizeRun(const std::vector<RequestRecord>& records, const Slo& slo);

}  // namespace penstock
