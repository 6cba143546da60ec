#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace soli {

/// Figures over one number, as lines.
struct Plot {
  struct Line {
    std::string name;
    std::vector<std::pair<double, double>> points;  // x ascending, y not below 0
    bool is_dashed = false;
    bool is_main = false;               // drawn thicker, in the colour of text
    std::optional<size_t> colour = {};  // else its place among the lines
  };
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<Line> lines;
  /// What stands at the axis where; none: even distances.
  std::vector<std::pair<double, std::string>> x_ticks = {};
};

/// In characters, with a letter for each line.
std::string render_text(const Plot& plot);
/// Plots one below the other, as one SVG 1.1 document.
std::string render_svg(const std::vector<Plot>& plots);

/// One plot as an <svg> within a page, whose style sheet may change colours: `id` makes its parts unique, and
/// `description` is read to who does not see it. Without title and names of lines, which the page has.
std::string inline_svg(const Plot& plot, const std::string& id, const std::string& description);
/// The names of lines with their strokes, as a list of HTML.
std::string html_legend(const std::vector<Plot::Line>& lines);

}  // namespace soli
