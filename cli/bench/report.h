#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "cli/bench/load_series.h"
#include "cli/bench/metrics_text.h"
#include "cli/bench/request_record.h"
#include "cli/bench/summary.h"

namespace penstock {

// All that a report tells.
struct BenchReport {
  std::vector<std::pair<std::string, std::string>> settings;  // names and values
  absl::Time started;
  bool embed = false;  // there are inputs instead of output tokens
  int64_t warm_up = 0;
  std::vector<RequestRecord> records;  // measured ones, in the order of their ends
  BenchSummary summary;
  LoadSeries series;
  std::vector<MetricsInterval> server;  // empty unless the server's metrics were read
};

// For the terminal; latencies in milliseconds.
std::string FormatText(const BenchReport& report);
// Times in seconds.
std::string FormatJson(const BenchReport& report);
// A row per request, in the order of their indices; times in seconds, empty where there is none.
std::string FormatCsv(const BenchReport& report);
// One file that needs no other: inline SVG, no scripts; well-formed as XML.
std::string FormatHtml(const BenchReport& report);

// Whether WriteReport can be expected to work; leaves what the file holds. Errors name `path`.
absl::Status CheckReport(const std::string& path);
absl::Status WriteReport(const std::string& path, const std::string& text);

}  // namespace penstock
