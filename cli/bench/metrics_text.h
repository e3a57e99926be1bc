#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace penstock {

// A line of Prometheus text.
struct MetricValue {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;
};

// Skips comments; lines that cannot be understood are skipped as well: the text is a stranger's.
std::vector<MetricValue> ParseMetricsText(absl::string_view text);

// What the server told at one moment. Values of one name (and stage) are added up over the other
// labels.
struct MetricsSample {
  absl::Duration at;
  std::map<std::string, double> values;
  struct Stage {
    double busy = 0, bubble = 0, idle = 0;  // seconds since the server's start
  };
  std::map<std::string, Stage> stages;  // by "STAGE", or "REPLICA/STAGE" where replicas are told
};
MetricsSample MakeMetricsSample(absl::Duration at, const std::vector<MetricValue>& values);

// What happened between two neighbouring samples.
struct MetricsInterval {
  absl::Duration begin, end;
  std::map<std::string, double> gauges;  // "running", "waiting", at the end
  std::map<std::string, MetricsSample::Stage>
      stage_shares;       // of the stage's time; they add up to 1
  double batch_size = 0;  // mean over the steps; 0: no step
  bool has_batch_size = false;
};
std::vector<MetricsInterval> BuildIntervals(const std::vector<MetricsSample>& samples);

}  // namespace penstock
