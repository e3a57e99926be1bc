#include "cli/bench/load_series.h"

#include <algorithm>
#include <cmath>

namespace penstock {
namespace {

constexpr double kWidths[] = {0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600};
constexpr double kMostBins = 60;

double BinWidth(double seconds) {
  for (double width : kWidths)
    if (seconds / width <= kMostBins) return width;
  return seconds / kMostBins;
}

std::vector<LoadSeries::Bin> MakeBins(double begin, double end) {
  const double width = BinWidth(end - begin);
  // A narrow rest joins the bin before it: a rate over a few milliseconds says nothing.
  const double count = std::max(1.0, std::round((end - begin) / width));
  std::vector<LoadSeries::Bin> bins(static_cast<size_t>(count));
  for (size_t i = 0; i < bins.size(); ++i) {
    bins[i].begin = begin + width * static_cast<double>(i);
    bins[i].end = i + 1 == bins.size() ? end : bins[i].begin + width;
  }
  return bins;
}

}  // namespace

LoadSeries BuildLoadSeries(const std::vector<RequestRecord>& records, const BenchSummary& summary) {
  LoadSeries series;
  const double begin = absl::ToDoubleSeconds(summary.begin);
  const double end = absl::ToDoubleSeconds(summary.end);
  if (!(end > begin)) return series;
  series.bins = MakeBins(begin, end);
  const double width = BinWidth(end - begin);
  const auto place = [&](double at) {
    const double position = std::floor((at - begin) / width);
    return static_cast<size_t>(
        std::clamp(position, 0.0, static_cast<double>(series.bins.size() - 1)));
  };
  for (const RequestRecord& record : records) {
    const double from = absl::ToDoubleSeconds(record.sent), to = absl::ToDoubleSeconds(record.end);
    for (const TokenArrival& arrival : record.arrivals)
      series.bins[place(absl::ToDoubleSeconds(arrival.at))].output_tokens_per_s += arrival.tokens;
    if (record.ok()) series.bins[place(to)].inputs_per_s += record.inputs;
    for (size_t i = place(from); i <= place(to); ++i)
      series.bins[i].running +=
          std::max(0.0, std::min(to, series.bins[i].end) - std::max(from, series.bins[i].begin));
  }
  for (LoadSeries::Bin& bin : series.bins) {
    const double seconds = bin.end - bin.begin;
    bin.output_tokens_per_s /= seconds;
    bin.inputs_per_s /= seconds;
    bin.running /= seconds;
  }
  return series;
}

}  // namespace penstock
