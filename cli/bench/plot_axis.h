#pragma once

#include <string>
#include <vector>

namespace penstock {

// A number as people read it: three significant digits, thousands apart.
std::string FormatValue(double value);

// Values along one side of a plot: where they are drawn, and ticks at round ones.
class PlotAxis {
 public:
  struct Tick {
    double place;
    std::string label;
  };
  // From `low` to `high`, drawn at `from` and `to`.
  static PlotAxis Linear(double low, double high, double from, double to);
  // The same by decades; `low` above 0.
  static PlotAxis Logarithmic(double low, double high, double from, double to);

  double low() const { return low_; }
  double high() const { return high_; }
  double Place(double value) const;
  const std::vector<Tick>& ticks() const { return ticks_; }

 private:
  PlotAxis(double low, double high, double from, double to, bool logarithmic)
      : low_(low), high_(high), from_(from), to_(to), logarithmic_(logarithmic) {}
  void AddTick(double value) { ticks_.push_back({Place(value), FormatValue(value)}); }

  double low_, high_, from_, to_;
  bool logarithmic_;
  std::vector<Tick> ticks_;
};

}  // namespace penstock
