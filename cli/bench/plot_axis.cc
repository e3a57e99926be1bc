#include "cli/bench/plot_axis.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace penstock {
namespace {

// The nearest of 1, 2, 5 times a power of ten that is at least `step`.
double RoundStep(double step) {
  const double power = std::pow(10, std::floor(std::log10(step)));
  for (double factor : {1.0, 2.0, 5.0})
    if (factor * power >= step * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

}  // namespace

std::string FormatValue(double value) {
  const double size = std::fabs(value);
  if (size >= 1e7) return absl::StrFormat("%.3gM", value / 1e6);
  if (size >= 1e4) return absl::StrFormat("%.4gk", value / 1e3);
  if (size >= 100) return absl::StrFormat("%.0f", value);
  return absl::StrFormat("%.3g", std::round(value * 1e9) / 1e9);  // no -0 and no 1e-17
}

PlotAxis PlotAxis::Linear(double low, double high, double from, double to) {
  if (!(high > low)) high = low + 1;
  PlotAxis axis(low, high, from, to, false);
  const double step = RoundStep((high - low) / 6);
  for (double tick = std::ceil(low / step); tick * step <= high * (1 + 1e-9); ++tick)
    axis.AddTick(tick * step);
  return axis;
}

PlotAxis PlotAxis::Logarithmic(double low, double high, double from, double to) {
  if (high < low * 2) {  // room for at least one tick
    low /= 1.5;
    high *= 1.5;
  }
  PlotAxis axis(low, high, from, to, true);
  const bool between = high < low * 1e4;  // 2 and 5 as well
  for (double power = std::pow(10, std::floor(std::log10(low))); power <= high; power *= 10)
    for (double factor : {1.0, 2.0, 5.0})
      if ((between || factor == 1.0) && factor * power >= low && factor * power <= high)
        axis.AddTick(factor * power);
  return axis;
}

double PlotAxis::Place(double value) const {
  const double share = logarithmic_
                           ? std::log(std::max(value, low_) / low_) / std::log(high_ / low_)
                           : (value - low_) / (high_ - low_);
  return from_ + std::clamp(share, 0.0, 1.0) * (to_ - from_);
}

}  // namespace penstock
