#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace penstock {

// `text` for the inside of an XML element or attribute; characters that XML forbids become '?'.
std::string EscapeXml(absl::string_view text);

// A chart of x and y, drawn as SVG of 720 x 300 units. Colours and fonts come from the classes of
// kPlotStyle: series i has the class "s<i>".
struct SvgPlot {
  enum class Kind {
    kLines,    // a line per series
    kStacked,  // areas on top of one another; all series have the same x, and a point's
               // area begins at the point before
    kDots,
  };
  struct Series {
    std::string name;
    std::vector<std::pair<double, double>> points;  // x ascending for lines and areas
    int color = 0;                                  // 0 to 4
  };
  std::string title;
  std::string x_label, y_label;  // with units
  Kind kind = Kind::kLines;
  bool log_x = false;  // x must be above 0
  double y_top = 0;    // end of the y axis; 0: from the data
  std::vector<Series> series = {};

  size_t points() const;
  // An <svg> element. Each mark has a <title>, which browsers show under the pointer; the element
  // tells the number of its points as data-points.
  std::string Render() const;
};

// What the classes look like, in light and in dark, as the contents of a <style> element.
extern const char kPlotStyle[];

}  // namespace penstock
