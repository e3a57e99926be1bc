#include "cli/trace_totals.h"

#include <algorithm>

namespace penstock {
namespace {

constexpr double kSecond = 1e9;  // nanoseconds

// Nanoseconds of [begin, end) that lie in [0, window).
int64_t Inside(int64_t begin, int64_t end, int64_t window) {
  return std::max<int64_t>(0, std::min(end, window) - std::max<int64_t>(begin, 0));
}

}  // namespace

void TraceTotals::Add(const v1::TraceStep& step) {
  ++steps_;
  const auto stages = static_cast<size_t>(step.stages_size());
  if (slices_.size() < stages) slices_.resize(stages);
  int64_t end = step.launched();
  for (size_t i = 0; i < stages; ++i) {
    const v1::StageSpan& stage = step.stages(static_cast<int>(i));
    slices_[i].push_back({{stage.begin(), stage.end()}, stage.transfer(), stage.wait()});
    end = std::max(end, stage.end());
  }
  if (!covered_.empty() && step.launched() <= covered_.back().end) {
    covered_.back().end = std::max(covered_.back().end, end);
  } else {
    covered_.push_back({step.launched(), end});
  }
}

double TraceTotals::InFlight(int64_t end) const {
  int64_t nanoseconds = 0;
  for (const Span& span : covered_) nanoseconds += Inside(span.begin, span.end, end);
  return static_cast<double>(nanoseconds) / kSecond;
}

StageTotals TraceTotals::SumStage(const std::vector<Slice>& slices, int64_t end) const {
  StageTotals totals;
  double length = 0;
  for (const Slice& slice : slices) {
    const int64_t inside = Inside(slice.span.begin, slice.span.end, end);
    if (inside == 0) continue;
    const double part = static_cast<double>(inside) /
                        static_cast<double>(slice.span.end - slice.span.begin) / kSecond;
    ++totals.steps;
    length += static_cast<double>(inside) / kSecond;
    totals.transfer += static_cast<double>(slice.transfer) * part;
    totals.wait += static_cast<double>(slice.wait) * part;
  }
  const double in_flight = InFlight(end);
  totals.busy = length - totals.transfer - totals.wait;
  totals.bubble = in_flight - totals.busy;
  totals.idle = static_cast<double>(end) / kSecond - in_flight;
  return totals;
}

std::vector<StageTotals> TraceTotals::Sum(int64_t end) const {
  std::vector<StageTotals> totals;
  for (const auto& slices : slices_) totals.push_back(SumStage(slices, end));
  return totals;
}

}  // namespace penstock
