#include "shard/backend/cpu/machine_limits.h"

#include <algorithm>

#include "shard/base/cpus.h"
#include "tests/backend/cpu_testing.h"

namespace penstock {
namespace {

TEST(MachineLimitsTest, WhatTheProcessorHasIsMeasured) {
  const int cpus = AvailableCpus();
  const MachineLimits limits = MeasureLimits(cpus);
  const auto isas = AvailableIsaNames();
  EXPECT_EQ(limits.threads, cpus);
  EXPECT_GT(limits.read_bandwidth, 0);
  if (isas.front() != "scalar") {
    EXPECT_GT(limits.fp32, 0);
  }
  EXPECT_EQ(limits.bf16 > 0, std::find(isas.begin(), isas.end(), "avx512bf16") != isas.end());
  EXPECT_EQ(limits.handover > 0, cpus > 1);
}

TEST(MachineLimitsTest, OneThreadHandsNothingOver) { EXPECT_EQ(MeasureLimits(1).handover, 0); }

}  // namespace
}  // namespace penstock
