#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "proto/penstock/v1/admin.pb.h"

namespace penstock {

// What a stage did with the seconds of a window: busy + bubble + idle = the window.
struct StageTotals {
  int64_t steps = 0;    // that it worked on in the window
  double busy = 0;      // computing
  double bubble = 0;    // not computing though a step was in flight
  double idle = 0;      // no step in flight
  double transfer = 0;  // moving activations; like wait, part of bubble
  double wait = 0;      // for other ranks within the step
};

// Adds up the recorded steps of one replica. A step is in flight from its launch until its last
// stage has ended. Of a slice that sticks out of the window the part inside counts, its computing
// taken as spread evenly.
class TraceTotals {
 public:
  // There are that many, whether they work or not.
  void SetStages(size_t stages) { slices_.resize(stages); }
  // In the order of launches, as they are recorded.
  void Add(const v1::TraceStep& step);
  // Of the window from 0 to `end` nanoseconds.
  std::vector<StageTotals> Sum(int64_t end) const;
  int64_t steps() const { return steps_; }
  int64_t last_end() const { return covered_.empty() ? 0 : covered_.back().end; }

 private:
  struct Span {
    int64_t begin, end;
  };
  struct Slice {
    Span span;
    int64_t transfer, wait;
  };
  StageTotals SumStage(const std::vector<Slice>& slices, int64_t end) const;
  double InFlight(int64_t end) const;  // seconds

  int64_t steps_ = 0;
  std::vector<std::vector<Slice>> slices_;  // [stage], in order
  std::vector<Span> covered_;               // with a step in flight; ascending, disjoint
};

}  // namespace penstock
