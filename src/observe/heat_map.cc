#include "observe/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/check.h"
#include "observe/colour_map.h"
#include "observe/html_text.h"
#include "observe/png.h"

namespace soli {
namespace {

constexpr double kMapLeft = 40;
constexpr double kMapWidth = 432;  // of the picture
constexpr double kMapRight = 8;
constexpr double kMapTop = 6;
constexpr double kMapBottom = 34;
constexpr double kMapHeight = 260;  // of the picture, where rows are neither very low nor very high
constexpr double kLeastRow = 5;
constexpr double kMostRow = 22;
constexpr double kRowLabels = 13;  // distance of labels, at least
constexpr double kColumnLabels = 26;

const ColourMap& colours_of(bool has_two_sides) {
  return has_two_sides ? two_sided_colours() : one_sided_colours();
}

uint8_t colour_of(double value, double most, bool has_two_sides) {
  if (most <= 0) return has_two_sides ? two_sided_colour(0) : one_sided_colour(0);
  return has_two_sides ? two_sided_colour(value / most)
                       : one_sided_colour(std::sqrt(std::max(0.0, value) / most));
}

/// 1, 2, 5, 10, ...: the least whose labels are `least` apart, where one step is `width` wide.
int64_t label_step(double width, double least) {
  int64_t unit = 1;
  while (true) {
    for (const int64_t factor : {1, 2, 5}) {
      if (static_cast<double>(factor * unit) * width >= least) return factor * unit;
    }
    unit *= 10;
  }
}

double row_height(size_t n_rows) {
  return std::clamp(kMapHeight / static_cast<double>(n_rows), kLeastRow, kMostRow);
}

std::string picture(double width, double height, double x, double y, const std::string& address) {
  return fmt::format(
      "<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{:.2f}\" preserveAspectRatio=\"none\" href=\"{}\"/>\n",
      x, y, width, height, address);
}

void add_axes(const HeatMap& map, std::string& out) {
  const auto add = std::back_inserter(out);
  const double high = row_height(map.rows.size());
  const double wide = kMapWidth / static_cast<double>(map.n_columns);
  const double bottom = kMapTop + high * static_cast<double>(map.rows.size());
  const auto row_step = static_cast<size_t>(label_step(high, kRowLabels));
  for (size_t row = 0; row < map.rows.size(); row += row_step) {
    fmt::format_to(add, "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kMapLeft - 5,
                   kMapTop + high * (static_cast<double>(row) + 0.5) + 4, map.rows[row]);
  }
  const int64_t column_step = label_step(wide, kColumnLabels);
  for (int64_t column = 0; column < map.n_columns; column += column_step) {
    fmt::format_to(add, "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                   kMapLeft + wide * (static_cast<double>(column) + 0.5), bottom + 13, column);
  }
  fmt::format_to(add, "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"middle\">expert</text>\n",
                 kMapLeft + kMapWidth / 2, bottom + 28);
  const double middle = (kMapTop + bottom) / 2;
  fmt::format_to(add,
                 "<text x=\"11\" y=\"{0:.1f}\" text-anchor=\"middle\" transform=\"rotate(-90 11 "
                 "{0:.1f})\">layer</text>\n",
                 middle);
}

/// Some of the values, whose labels do not run into one another; the fair share, 1, is one of them.
std::vector<double> legend_values(double most, bool has_two_sides) {
  if (has_two_sides) return {-most, -most / 2, 0, most / 2, most};
  constexpr double kLeastDistance = 0.08;  // of the width
  std::vector<double> values = {0};
  for (const double value : {0.25, 1.0, most * 9 / 16}) {
    const double at = std::sqrt(value / most);
    const double before = std::sqrt(values.back() / most);
    if (at - before >= kLeastDistance && 1 - at >= kLeastDistance) values.push_back(value);
  }
  values.push_back(most);
  return values;
}

}  // namespace

std::string heat_map_svg(const HeatMap& map, const std::string& id, const std::string& title,
                         const std::string& description, const std::string& attributes) {
  SOLI_CHECK(map.values.size() == map.rows.size() * static_cast<size_t>(map.n_columns));
  std::vector<uint8_t> pixels;
  for (const double value : map.values) pixels.push_back(colour_of(value, map.most, map.has_two_sides));
  const double high = row_height(map.rows.size());
  const double height = high * static_cast<double>(map.rows.size());
  std::string out = fmt::format(
      "<svg class=\"heat\" viewBox=\"0 0 {} {:.2f}\" role=\"img\" aria-labelledby=\"{}-title {}-desc\" {}>\n"
      "<title id=\"{}-title\">{}</title><desc id=\"{}-desc\">{}</desc>\n",
      kMapLeft + kMapWidth + kMapRight, kMapTop + height + kMapBottom, id, id, attributes, id,
      html_text(title), id, html_text(description));
  add_axes(map, out);
  out += picture(kMapWidth, height, kMapLeft, kMapTop,
                 png_address(map.n_columns, pixels, colours_of(map.has_two_sides)));
  out += fmt::format(
      "<rect class=\"mark\" x=\"{}\" y=\"{}\" width=\"{:.3f}\" height=\"{:.3f}\" fill=\"none\" "
      "visibility=\"hidden\"/>\n",
      kMapLeft, kMapTop, kMapWidth / static_cast<double>(map.n_columns), high);
  return out + "</svg>\n";
}

std::string colour_legend_svg(double most, bool has_two_sides, const std::string& id,
                              const std::string& title) {
  constexpr double kLegendWidth = 300;
  constexpr double kLegendLeft = 24;
  std::vector<uint8_t> pixels;
  for (size_t i = 0; i < kColours; ++i) pixels.push_back(static_cast<uint8_t>(i));
  std::string out = fmt::format(
      "<svg class=\"colours\" viewBox=\"0 0 {} 34\" role=\"img\" aria-labelledby=\"{}-title\"><title "
      "id=\"{}-title\">{}</title>\n",
      kLegendWidth + 2 * kLegendLeft, id, id, html_text(title));
  out += picture(kLegendWidth, 12, kLegendLeft, 2, png_address(kColours, pixels, colours_of(has_two_sides)));
  const auto label = [&](double value) {
    const double share = has_two_sides ? (value / most + 1) / 2 : std::sqrt(value / most);
    out += fmt::format("<text x=\"{:.1f}\" y=\"28\" text-anchor=\"middle\">{}{:.3g}</text>\n",
                       kLegendLeft + share * kLegendWidth, has_two_sides && value > 0 ? "+" : "", value);
  };
  for (const double value : legend_values(most, has_two_sides)) label(value);
  return out + "</svg>\n";
}

}  // namespace soli
