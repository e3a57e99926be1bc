#include "cli/bench/svg_plot.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/bench/plot_axis.h"

namespace penstock {
namespace {

constexpr double kWidth = 720, kHeight = 300;
constexpr double kLeft = 62, kRight = 704, kTop = 56, kBottom = 252;  // of the area with data
constexpr size_t kMostMarks = 200;  // invisible points that show values under the pointer

std::string Number(double value) { return absl::StrFormat("%.1f", value); }  // of a coordinate

std::string Text(double x, double y, absl::string_view classes, absl::string_view text) {
  return absl::StrCat("<text x=\"", Number(x), "\" y=\"", Number(y), "\" class=\"", classes, "\">",
                      EscapeXml(text), "</text>");
}

std::string Line(double x1, double y1, double x2, double y2, absl::string_view classes) {
  return absl::StrCat("<line x1=\"", Number(x1), "\" y1=\"", Number(y1), "\" x2=\"", Number(x2),
                      "\" y2=\"", Number(y2), "\" class=\"", classes, "\"/>");
}

// One plot on its way to text.
class Drawing {
 public:
  explicit Drawing(const SvgPlot& plot) : plot_(plot), x_(MakeX(plot)), y_(MakeY(plot)) {}

  std::string Render() const {
    std::string svg =
        absl::StrCat("<svg viewBox=\"0 0 ", kWidth, " ", kHeight,
                     "\" role=\"img\" class=\"plot\" data-points=\"", plot_.points(), "\"><title>",
                     EscapeXml(plot_.title), "</title>", Text(16, 22, "heading", plot_.title));
    absl::StrAppend(&svg, Grid(), Legend());
    if (plot_.kind == SvgPlot::Kind::kLines) absl::StrAppend(&svg, Lines());
    if (plot_.kind == SvgPlot::Kind::kStacked) absl::StrAppend(&svg, Areas());
    if (plot_.kind == SvgPlot::Kind::kDots) absl::StrAppend(&svg, Dots());
    return svg + "</svg>\n";
  }

 private:
  static PlotAxis MakeX(const SvgPlot& plot) {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (const SvgPlot::Series& series : plot.series)
      for (const auto& [x, y] : series.points) {
        low = std::min(low, x);
        high = std::max(high, x);
      }
    if (!(low <= high)) return PlotAxis::Linear(0, 1, kLeft, kRight);
    return plot.log_x ? PlotAxis::Logarithmic(low, high, kLeft, kRight)
                      : PlotAxis::Linear(std::min(0.0, low), high, kLeft, kRight);
  }
  static PlotAxis MakeY(const SvgPlot& plot) {
    double top = plot.y_top;
    for (const SvgPlot::Series& series : plot.series)
      for (const auto& [x, y] : series.points)
        if (plot.y_top == 0) top = std::max(top, y * 1.05);
    return PlotAxis::Linear(0, top > 0 ? top : 1, kBottom, kTop);
  }

  std::string Grid() const {
    std::string svg;
    for (const PlotAxis::Tick& tick : y_.ticks())
      absl::StrAppend(&svg, Line(kLeft, tick.place, kRight, tick.place, "grid"),
                      Text(kLeft - 8, tick.place + 4, "tick end", tick.label));
    for (const PlotAxis::Tick& tick : x_.ticks())
      absl::StrAppend(&svg, Line(tick.place, kBottom, tick.place, kBottom + 4, "axis"),
                      Text(tick.place, kBottom + 18, "tick middle", tick.label));
    absl::StrAppend(&svg, Line(kLeft, kBottom, kRight, kBottom, "axis"),
                    Text((kLeft + kRight) / 2, kHeight - 10, "label middle", plot_.x_label),
                    Text(16, 38, "label", plot_.y_label));
    return svg;
  }

  std::string Legend() const {
    if (plot_.series.size() < 2) return "";
    std::string svg;
    double x = kRight;
    for (auto series = plot_.series.rbegin(); series != plot_.series.rend(); ++series) {
      x -= 6.6 * static_cast<double>(series->name.size()) + 28;  // about a letter's width
      absl::StrAppend(&svg, "<rect x=\"", Number(x),
                      "\" y=\"13\" width=\"10\" height=\"10\" rx=\"2\" class=\"fill s",
                      series->color, "\"/>", Text(x + 14, 22, "label", series->name));
    }
    return svg;
  }

  std::string Hover(const SvgPlot::Series& series, double x, double y) const {
    return absl::StrFormat("<title>%s: %s at %s</title>", EscapeXml(series.name),
                           EscapeXml(FormatValue(y)), EscapeXml(FormatValue(x)));
  }
  std::string Mark(const SvgPlot::Series& series, double x, double y, double radius,
                   absl::string_view classes) const {
    return absl::StrCat("<circle cx=\"", Number(x_.Place(x)), "\" cy=\"", Number(y_.Place(y)),
                        "\" r=\"", radius, "\" class=\"", classes, " s", series.color, "\">",
                        Hover(series, x, y), "</circle>");
  }

  std::string Lines() const {
    std::string svg;
    for (const SvgPlot::Series& series : plot_.series) {
      absl::StrAppend(&svg, "<polyline class=\"line s", series.color, "\" points=\"");
      for (const auto& [x, y] : series.points)
        absl::StrAppend(&svg, Number(x_.Place(x)), ",", Number(y_.Place(y)), " ");
      absl::StrAppend(&svg, "\"/>");
    }
    for (const SvgPlot::Series& series : plot_.series) {
      const size_t stride = series.points.size() / kMostMarks + 1;
      for (size_t i = 0; i < series.points.size(); i += stride)
        absl::StrAppend(&svg,
                        Mark(series, series.points[i].first, series.points[i].second, 6, "hover"));
    }
    return svg;
  }

  std::string Dots() const {
    std::string svg;
    for (const SvgPlot::Series& series : plot_.series)
      for (const auto& [x, y] : series.points)
        absl::StrAppend(&svg, Mark(series, x, y, 2.5, "dot"));
    return svg;
  }

  // Bars without gaps, each from the point before to its own.
  std::string Areas() const {
    std::string svg;
    const size_t count = plot_.series.empty() ? 0 : plot_.series.front().points.size();
    for (size_t i = 0; i < count; ++i) {
      double bottom = 0;
      for (const SvgPlot::Series& series : plot_.series) {
        const auto& [x, y] = series.points[i];
        const double left = i == 0 ? x_.low() : series.points[i - 1].first;
        const double top = std::min(bottom + y, y_.high());
        absl::StrAppend(&svg, "<rect x=\"", Number(x_.Place(left)), "\" y=\"",
                        Number(y_.Place(top)), "\" width=\"", Number(x_.Place(x) - x_.Place(left)),
                        "\" height=\"", Number(y_.Place(bottom) - y_.Place(top)),
                        "\" class=\"area s", series.color, "\">", Hover(series, x, y), "</rect>");
        bottom = top;
      }
    }
    return svg;
  }

  const SvgPlot& plot_;
  const PlotAxis x_, y_;
};

}  // namespace

const char kPlotStyle[] = R"(
.plot { width: 100%; height: auto; font: 12px system-ui, sans-serif; }
.plot .heading { font-size: 14px; font-weight: 600; fill: var(--ink); }
.plot .label, .plot .tick { fill: var(--muted); }
.plot .middle { text-anchor: middle; }
.plot .end { text-anchor: end; }
.plot .grid { stroke: var(--grid); stroke-width: 1; }
.plot .axis { stroke: var(--muted); stroke-width: 1; }
.plot .line { fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; }
.plot .fill, .plot .area, .plot .dot { fill: var(--c); }
.plot .area { stroke: var(--c); stroke-width: 0.6; }
.plot .dot { fill-opacity: 0.6; }
.plot .hover { fill: var(--c); fill-opacity: 0; }
.plot .hover:hover { fill-opacity: 1; }
.plot .area:hover { fill-opacity: 0.8; }
.s0 { --c: var(--blue); } .s1 { --c: var(--orange); } .s2 { --c: var(--green); }
.s3 { --c: var(--violet); } .s4 { --c: var(--gray); }
)";

std::string EscapeXml(absl::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? '?' : c;
    }
  }
  return out;
}

size_t SvgPlot::points() const {
  size_t count = 0;
  for (const Series& one : series) count += one.points.size();
  return count;
}

std::string SvgPlot::Render() const { return Drawing(*this).Render(); }

}  // namespace penstock
