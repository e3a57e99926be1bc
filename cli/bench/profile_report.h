#pragma once

#include <string>
#include <vector>

#include "shard/backend/cpu/machine_limits.h"
#include "shard/profile/step_profiler.h"

namespace penstock {

// Profiles of several kinds of steps, beside what the machine can do.
struct ProfileReport {
  std::string model{};
  MachineLimits limits{};
  bool bf16 = false;  // products are held against the bf16 peak
  struct Section {
    std::string title{};
    double read_bandwidth = 0;  // bytes per second, measured just before and after the steps
    StepProfile profile{};
  };
  std::vector<Section> sections{};
};

// A table per section: operations by time per step, with their rates as shares of the limits, and
// which of the two limits would be reached first. A share of memory above 100 % is of data that
// was in a cache.
std::string FormatProfileText(const ProfileReport& report);
std::string FormatProfileJson(const ProfileReport& report);

}  // namespace penstock
