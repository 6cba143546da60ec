#include "observe/line_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "observe/html_text.h"

namespace soli {
namespace {

struct PlotRange {
  double x_min = 0;
  double x_max = 1;
  double y_max = 1;
};

/// From nothing, so that heights compare.
PlotRange range_of(const Plot& plot) {
  PlotRange range = {.x_min = 1e300, .x_max = 0, .y_max = 0};
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

/// The next number above that can be cut into four and read.
double round_above(double y) {
  const double unit = std::pow(10.0, std::floor(std::log10(y)));
  for (const double factor : {1.0, 1.2, 1.6, 2.0, 2.4, 3.0, 4.0, 5.0, 6.0, 8.0}) {
    if (y <= unit * factor * (1 + 1e-9)) return unit * factor;
  }
  return 10 * unit;
}

char letter_of(size_t line) { return static_cast<char>('a' + line % 26); }

// Colours that most people tell apart (M. Okabe, K. Ito), without the yellow.
constexpr const char* kLineColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                        "#b8860b", "#56b4e9", "#7f7f7f"};
constexpr size_t kMostTicks = 12;  // that are shown

struct PlotFrame {
  double width, height, left, right, top, bottom;
  bool is_alone;  // a document by itself
};
constexpr PlotFrame kAlone = {640, 320, 70, 150, 36, 48, true};
constexpr PlotFrame kInPage = {460, 240, 60, 14, 10, 42, false};

/// "stroke" and the like of a line, of which the seventh and later ones have dashes too.
std::string stroke_of(const Plot::Line& line, size_t place) {
  const size_t colour = line.colour.value_or(place);
  const size_t round = colour / std::size(kLineColours);
  std::string stroke = fmt::format(
      "class=\"line {}\" stroke=\"{}\" stroke-width=\"{}\"",
      line.is_main ? "main" : fmt::format("c{}", colour % std::size(kLineColours)),
      line.is_main ? "#222" : kLineColours[colour % std::size(kLineColours)], line.is_main ? 2.5 : 1.5);
  if (line.is_dashed || round > 0)
    stroke += fmt::format(" stroke-dasharray=\"{}\"", line.is_dashed || round == 1 ? "5 3" : "1.5 2.5");
  return stroke;
}

class SvgPlot {
 public:
  SvgPlot(std::string& out, const Plot& plot, const PlotFrame& frame, double top)
      : out_(out), plot_(plot), frame_(frame), top_(top), range_(range_of(plot)) {
    range_.y_max = round_above(range_.y_max);
  }

  void draw() {
    if (frame_.is_alone)
      print("<text x=\"{}\" y=\"{}\" font-size=\"14\">{}</text>\n", frame_.left, top_ + 20,
            html_text(plot_.title));
    draw_y_axis();
    draw_x_axis();
    for (size_t i = 0; i < plot_.lines.size(); ++i) draw_line(plot_.lines[i], i);
  }

 private:
  template <typename... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }
  double to_x(double x) const {
    return frame_.left +
           (x - range_.x_min) / (range_.x_max - range_.x_min) * (frame_.width - frame_.left - frame_.right);
  }
  double to_y(double y) const {
    return bottom() - y / range_.y_max * (frame_.height - frame_.top - frame_.bottom);
  }
  double bottom() const { return top_ + frame_.height - frame_.bottom; }

  void draw_y_axis() {
    for (int i = 0; i <= 4; ++i) {
      const double y = range_.y_max * i / 4;
      print("<line class=\"rule\" x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n",
            frame_.left, to_y(y), frame_.width - frame_.right, to_y(y));
      print("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.3g}</text>\n", frame_.left - 6, to_y(y) + 4,
            y);
    }
    print("<text x=\"12\" y=\"{0}\" text-anchor=\"middle\" transform=\"rotate(-90 12 {0})\">{1}</text>\n",
          top_ + (frame_.top + frame_.height - frame_.bottom) / 2, html_text(plot_.y_label));
  }

  void draw_x_axis() {
    const auto tick = [&](double x, const std::string& name) {
      print("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", to_x(x), bottom() + 16,
            html_text(name));
    };
    const size_t step = plot_.x_ticks.size() / kMostTicks + 1;
    for (size_t i = 0; i < plot_.x_ticks.size(); i += step)
      tick(plot_.x_ticks[i].first, plot_.x_ticks[i].second);
    for (int i = 0; i <= 4 && plot_.x_ticks.empty(); ++i) {
      const double x = range_.x_min + (range_.x_max - range_.x_min) * i / 4;
      tick(x, fmt::format("{:.3g}", x));
    }
    print("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
          (frame_.left + frame_.width - frame_.right) / 2, top_ + frame_.height - (frame_.is_alone ? 12 : 8),
          html_text(plot_.x_label));
  }

  std::string name_of_x(double x) const {
    for (const auto& [at, name] : plot_.x_ticks) {
      if (at == x) return name;
    }
    return fmt::format("{:.4g}", x);
  }

  void draw_line(const Plot::Line& line, size_t place) {
    const std::string stroke = stroke_of(line, place);
    print("<polyline fill=\"none\" {} points=\"", stroke);
    for (const auto& [x, y] : line.points) print("{:.1f},{:.1f} ", to_x(x), to_y(y));
    print("\"/>\n<g {}>", stroke);
    for (const auto& [x, y] : line.points) {
      print("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"1.5\"><title>{}, {}: {:.4g}</title></circle>", to_x(x),
            to_y(y), html_text(line.name), html_text(name_of_x(x)), y);
    }
    out_ += "</g>\n";
    if (!frame_.is_alone) return;
    const double y = top_ + frame_.top + 16 * static_cast<double>(place);
    const double x = frame_.width - frame_.right + 12;
    print("<line {} x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>\n", stroke, x, x + 14, y + 4, y + 4);
    print("<text x=\"{}\" y=\"{}\">{}</text>\n", x + 18, y + 8, html_text(line.name));
  }

  std::string& out_;
  const Plot& plot_;
  const PlotFrame& frame_;
  const double top_;
  PlotRange range_;
};

}  // namespace

std::string render_text(const Plot& plot) {
  constexpr int kColumns = 64;
  constexpr int kRows = 16;
  const PlotRange range = range_of(plot);
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
  const double height = kAlone.height * static_cast<double>(plots.size());
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kAlone.width, height);
  for (size_t i = 0; i < plots.size(); ++i)
    SvgPlot(out, plots[i], kAlone, kAlone.height * static_cast<double>(i)).draw();
  return out + "</svg>\n";
}

std::string inline_svg(const Plot& plot, const std::string& id, const std::string& description) {
  std::string out = fmt::format(
      "<svg class=\"plot\" viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"{}-title {}-desc\">\n"
      "<title id=\"{}-title\">{}</title><desc id=\"{}-desc\">{}</desc>\n",
      kInPage.width, kInPage.height, id, id, id, html_text(plot.title), id, html_text(description));
  SvgPlot(out, plot, kInPage, 0).draw();
  return out + "</svg>\n";
}

std::string html_legend(const std::vector<Plot::Line>& lines) {
  std::string out = "<ul class=\"legend\">";
  for (size_t i = 0; i < lines.size(); ++i) {
    out += fmt::format(
        "<li><svg width=\"28\" height=\"10\" aria-hidden=\"true\"><line {} x1=\"1\" x2=\"27\" y1=\"5\" "
        "y2=\"5\"/></svg> <bdi>{}</bdi></li>",
        stroke_of(lines[i], i), html_text(lines[i].name));
  }
  return out + "</ul>\n";
}

}  // namespace soli
