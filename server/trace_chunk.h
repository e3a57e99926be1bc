#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "proto/penstock/v1/admin.pb.h"
#include "server/trace_hub.h"
#include "shard/api/executor.h"

namespace penstock {

// Nanoseconds since a recording's beginning, from both clocks that reports use. The two are
// compared once, so that one recording has one time.
class TraceClock {
 public:
  explicit TraceClock(absl::Time begin);

  int64_t Nanoseconds(absl::Time time) const { return absl::ToUnixNanos(time) - begin_; }
  int64_t FromSteady(int64_t nanoseconds) const { return nanoseconds + steady_to_begin_; }
  int64_t unix_nanoseconds() const { return begin_; }

 private:
  const int64_t begin_;  // since 1970
  int64_t steady_to_begin_ = 0;
};

// Messages of penstock.v1.Admin from what the server knows.
void FillChunk(const TraceRecording::Batch& batch, const TraceClock& clock, v1::TraceChunk* chunk);
void FillGauges(const SchedulerState& state, v1::SchedulerGauges* gauges);
void FillCounters(const PipelineStats& stats, v1::PipelineCounters* counters);

}  // namespace penstock
