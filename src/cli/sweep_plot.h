#pragma once

#include <string>
#include <utility>
#include <vector>

namespace soli::cli {

/// A figure over the share of experts in memory, for some ways of choosing them.
struct Plot {
  struct Line {
    std::string name;
    std::vector<std::pair<double, double>> points;  // x ascending
  };
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<Line> lines;
};

/// In characters, with a letter for each line.
std::string render_text(const Plot& plot);
/// Plots one below the other, as one SVG 1.1 document.
std::string render_svg(const std::vector<Plot>& plots);

}  // namespace soli::cli
