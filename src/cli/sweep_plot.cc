#include "cli/sweep_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace soli::cli {
namespace {

struct Range {
  double x_min = 0;
  double x_max = 1;
  double y_max = 1;
};

/// From nothing, so that heights compare.
Range range_of(const Plot& plot) {
  Range range = {.x_min = 1e300, .x_max = 0, .y_max = 0};
  for (const Plot::Line& line : plot.lines) {
    for (const auto& [x, y] : line.points) {
      range.x_min = std::min(range.x_min, x);
      range.x_max = std::max(range.x_max, x);
      range.y_max = std::max(range.y_max, y);
    }
  }
  if (range.x_max <= range.x_min) range.x_max = range.x_min + 1;
  if (range.y_max <= 0) range.y_max = 1;
  return range;
}

char letter_of(size_t line) { return static_cast<char>('a' + line % 26); }

/// Names hold only what we put there, but a document must stay one.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

constexpr const char* kColours[] = {"#1b6ca8", "#d1495b", "#2e933c", "#edae49",
                                    "#6a4c93", "#555555", "#00a6a6"};
constexpr double kWidth = 640;
constexpr double kHeight = 320;
constexpr double kLeft = 70;
constexpr double kRight = 150;
constexpr double kTop = 36;
constexpr double kBottom = 48;

void svg_plot(std::string& out, const Plot& plot, double top) {
  const Range range = range_of(plot);
  const auto to_x = [&](double x) {
    return kLeft + (x - range.x_min) / (range.x_max - range.x_min) * (kWidth - kLeft - kRight);
  };
  const auto to_y = [&](double y) {
    return top + kHeight - kBottom - y / range.y_max * (kHeight - kTop - kBottom);
  };
  const auto add = std::back_inserter(out);
  fmt::format_to(add, "<text x=\"{}\" y=\"{}\" font-size=\"14\">{}</text>\n", kLeft, top + 20,
                 escaped(plot.title));
  for (int i = 0; i <= 4; ++i) {
    const double y = range.y_max * i / 4;
    fmt::format_to(add, "<line x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n", kLeft,
                   to_y(y), kWidth - kRight, to_y(y));
    fmt::format_to(add, "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.3g}</text>\n", kLeft - 6,
                   to_y(y) + 4, y);
    const double x = range.x_min + (range.x_max - range.x_min) * i / 4;
    fmt::format_to(add, "<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.3g}</text>\n", to_x(x),
                   top + kHeight - kBottom + 16, x);
  }
  fmt::format_to(add, "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                 (kLeft + kWidth - kRight) / 2, top + kHeight - 12, escaped(plot.x_label));
  fmt::format_to(
      add, "<text x=\"16\" y=\"{0}\" text-anchor=\"middle\" transform=\"rotate(-90 16 {0})\">{1}</text>\n",
      top + kHeight / 2, escaped(plot.y_label));
  for (size_t i = 0; i < plot.lines.size(); ++i) {
    const char* const colour = kColours[i % std::size(kColours)];
    out += "<polyline fill=\"none\" stroke-width=\"1.5\" stroke=\"" + std::string(colour) + "\" points=\"";
    for (const auto& [x, y] : plot.lines[i].points) fmt::format_to(add, "{:.1f},{:.1f} ", to_x(x), to_y(y));
    out += "\"/>\n";
    const double y = top + kTop + 16 * static_cast<double>(i);
    fmt::format_to(add, "<text x=\"{}\" y=\"{}\" fill=\"{}\">{}</text>\n", kWidth - kRight + 12, y + 8,
                   colour, escaped(plot.lines[i].name));
  }
}

}  // namespace

std::string render_text(const Plot& plot) {
  constexpr int kColumns = 64;
  constexpr int kRows = 16;
  const Range range = range_of(plot);
  std::vector<std::string> cells(kRows, std::string(kColumns, ' '));
  for (size_t line = 0; line < plot.lines.size(); ++line) {
    for (const auto& [x, y] : plot.lines[line].points) {
      const double column = (x - range.x_min) / (range.x_max - range.x_min) * (kColumns - 1);
      const double row = y / range.y_max * (kRows - 1);
      char& cell =
          cells[static_cast<size_t>(kRows - 1 - std::lround(row))][static_cast<size_t>(std::lround(column))];
      cell = cell == ' ' ? letter_of(line) : '*';
    }
  }
  std::string text = fmt::format("{}\n", plot.title);
  for (int row = 0; row < kRows; ++row) {
    const double y = range.y_max * (kRows - 1 - row) / (kRows - 1);
    text += fmt::format("{:>8} |{}\n", row % 5 == 0 ? fmt::format("{:.3g}", y) : "",
                        cells[static_cast<size_t>(row)]);
  }
  text += fmt::format("{:>8} +{}\n{:>10}{:<32.3g}{:>32.3g}\n", "", std::string(kColumns, '-'), "",
                      range.x_min, range.x_max);
  text += fmt::format("{:>10}{}; * several\n{:>10}", "", plot.x_label, "");
  for (size_t line = 0; line < plot.lines.size(); ++line)
    text += fmt::format("{} {}  ", letter_of(line), plot.lines[line].name);
  return text + "\n";
}

std::string render_svg(const std::vector<Plot>& plots) {
  const double height = kHeight * static_cast<double>(plots.size());
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kWidth, height);
  for (size_t i = 0; i < plots.size(); ++i) svg_plot(out, plots[i], kHeight * static_cast<double>(i));
  return out + "</svg>\n";
}

}  // namespace soli::cli
