#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/observer.h"

namespace penstock {

// A span of the steady clock, in nanoseconds.
struct Window {
  int64_t begin = 0, end = 0;
  double seconds() const { return static_cast<double>(end - begin) * 1e-9; }
};

// From the first stage's first input to the last stage's last output.
Window WindowOf(std::span<const StepReport> steps);

// What the stages did in a window, in seconds.
struct StageUse {
  double seconds = 0;
  std::vector<double> busy;  // [stages] computing

  double Idle(size_t stage) const { return 1 - busy[stage] / seconds; }
  double MeanIdle() const;
  double Imbalance() const;  // of the busiest stage's work over the mean
};

// A step that is partly in the window counts for that part.
StageUse MeasureUse(std::span<const StepReport> steps, Window window);

// Indices [begin, end) of the longest run of steps with no prompt tokens and `decodes` tokens each.
struct StepRange {
  size_t begin = 0, end = 0;
};
StepRange FindSteadyDecode(std::span<const StepReport> steps, int32_t decodes);

}  // namespace penstock
