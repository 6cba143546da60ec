#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "observe/html_text.h"
#include "observe/line_plot.h"
#include "observe/profile_page.h"

namespace soli::profile_page {
namespace {

using LinePoints = std::vector<std::pair<double, double>>;

/// A line for all domains, and one for each; domains keep their colours in all plots.
std::vector<Plot::Line> lines_of(const ProfileReport& report,
                                 const std::function<LinePoints(const TargetReport&)>& points) {
  std::vector<Plot::Line> lines;
  for (const Target& target : targets_of(report)) {
    Plot::Line line = {.name = target.key == "all" ? "all domains" : target.report->name,
                       .points = points(*target.report)};
    line.is_main = target.key == "all";
    line.colour = lines.empty() ? 0 : lines.size() - 1;
    lines.push_back(std::move(line));
  }
  return lines;
}

/// What a plot says, for who does not see it.
std::string description_of(const Plot& plot) {
  std::string text = fmt::format("{} over {}.", plot.y_label, plot.x_label);
  for (const Plot::Line& line : plot.lines) {
    if (line.points.empty()) continue;
    const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto [least, most] = std::minmax_element(line.points.begin(), line.points.end(), less);
    text += fmt::format(" {}: {} to {}.", line.name, shown_number(least->second), shown_number(most->second));
  }
  return text;
}

void add_figure(const Plot& plot, const std::string& id, std::string& page) {
  bool has_points = false;
  for (const Plot::Line& line : plot.lines) has_points = has_points || !line.points.empty();
  if (!has_points) return;
  page += fmt::format("<figure><figcaption>{}</figcaption>\n", html_text(plot.title)) +
          inline_svg(plot, id, description_of(plot)) + "</figure>\n";
}

std::vector<std::pair<double, std::string>> layer_ticks(const ProfileReport& report) {
  std::vector<std::pair<double, std::string>> ticks;
  for (const RoutingFigures& layer : report.all.layers)
    ticks.emplace_back(static_cast<double>(layer.layer), fmt::to_string(layer.layer));
  return ticks;
}

Plot layer_plot(const ProfileReport& report, const char* title, const char* y_label,
                const std::function<std::optional<double>(const RoutingFigures&)>& figure) {
  Plot plot = {
      .title = title, .x_label = "layer", .y_label = y_label, .lines = {}, .x_ticks = layer_ticks(report)};
  plot.lines = lines_of(report, [&](const TargetReport& target) {
    LinePoints points;
    for (const RoutingFigures& layer : target.layers) {
      if (const std::optional<double> value = figure(layer))
        points.emplace_back(static_cast<double>(layer.layer), *value);
    }
    return points;
  });
  return plot;
}

/// Bins have even distances.
Plot position_plot(const ProfileReport& report, const char* title, const char* y_label,
                   double PositionFigures::*figure) {
  Plot plot = {.title = title, .x_label = "position, from", .y_label = y_label, .lines = {}};
  const auto place_of = [](const PositionFigures& position) {
    return position.first_position == 0 ? 0 : 1 + std::log2(static_cast<double>(position.first_position));
  };
  for (const PositionFigures& position : report.all.total.positions)
    plot.x_ticks.emplace_back(place_of(position), fmt::to_string(position.first_position));
  plot.lines = lines_of(report, [&](const TargetReport& target) {
    LinePoints points;
    for (const PositionFigures& position : target.total.positions)
      points.emplace_back(place_of(position), position.*figure);
    return points;
  });
  return plot;
}

LinePoints batch_points(const TargetReport& target, double BatchFigures::*figure) {
  LinePoints points;
  for (const BatchFigures& batch : target.total.batches)
    points.emplace_back(std::log2(static_cast<double>(batch.batch_tokens)), batch.*figure);
  return points;
}

Plot batch_plot(const ProfileReport& report, const char* title, const char* y_label) {
  Plot plot = {.title = title, .x_label = "consecutive tokens", .y_label = y_label, .lines = {}};
  for (const BatchFigures& batch : report.all.total.batches)
    plot.x_ticks.emplace_back(std::log2(static_cast<double>(batch.batch_tokens)),
                              fmt::to_string(batch.batch_tokens));
  return plot;
}

}  // namespace

void add_layer_curves(const ProfileReport& report, std::string& page) {
  using Figures = RoutingFigures;
  const Plot entropy = layer_plot(report, "Routing entropy of the shares, of its maximum", "entropy / log2 E",
                                  [](const Figures& f) { return f.routing_entropy_normalised; });
  page += html_legend(entropy.lines) + "<div class=\"grid\">\n";
  add_figure(entropy, "layer-entropy", page);
  add_figure(layer_plot(report, "Variation of the shares (CV; above 1: biased)", "CV",
                        [](const Figures& f) { return f.variation; }),
             "layer-cv", page);
  add_figure(layer_plot(report, "Share of the experts that are never called", "share",
                        [](const Figures& f) { return f.never_called; }),
             "layer-never", page);
  add_figure(layer_plot(report, "Stability: overlap of the experts of neighbouring tokens", "Jaccard overlap",
                        [](const Figures& f) { return f.stability; }),
             "layer-stability", page);
  page += "</div>\n";
}

void add_position_curves(const ProfileReport& report, std::string& page) {
  const Plot k = position_plot(report, "Experts per token (k)", "k", &PositionFigures::mean_k);
  page += html_legend(k.lines) + "<div class=\"grid\">\n";
  add_figure(k, "position-k", page);
  add_figure(
      position_plot(report, "Effective experts per token", "experts", &PositionFigures::effective_experts),
      "position-effective", page);
  add_figure(position_plot(report, "Entropy of the router's distribution", "bits",
                           &PositionFigures::gate_entropy_bits),
             "position-gate", page);
  page += "</div>\n";
}

void add_batch_curves(const ProfileReport& report, std::string& page) {
  Plot distinct = batch_plot(report, "Distinct experts, all layers together", "experts");
  distinct.lines.push_back(
      {.name = "distinct", .points = batch_points(report.all, &BatchFigures::distinct_experts)});
  distinct.lines.push_back({.name = "expected of independent tokens",
                            .points = batch_points(report.all, &BatchFigures::expected_union),
                            .is_dashed = true});
  Plot gain = batch_plot(report, "Sharing gain: expected / distinct experts", "gain");
  gain.lines =
      lines_of(report, [](const TargetReport& t) { return batch_points(t, &BatchFigures::sharing_gain); });
  page += "<div class=\"grid\">\n<div>" + html_legend(distinct.lines);
  add_figure(distinct, "batch-distinct", page);
  page += "</div>\n<div>" + html_legend(gain.lines);
  add_figure(gain, "batch-gain", page);
  page += "</div></div>\n";
}

void add_drift(const ProfileReport& report, std::string& page) {
  if (report.against.empty()) return;
  page += "<section id=\"drift\" aria-labelledby=\"drift-head\"><h2 id=\"drift-head\">Drift</h2>\n";
  const RoutingFigures& total = report.all.total;
  page += fmt::format(
      "<p>Jensen-Shannon divergence of the shares from those of the saved profile of <bdi>{}</bdi>: 0 "
      "bits are equal, 1 bit is disjoint. ",
      html_text(report.against));
  if (total.drift_bits) {
    page +=
        fmt::format("All domains together: {} bits, the mean over layers, where chance alone would give {}.",
                    shown_number(*total.drift_bits), shown_number(total.drift_chance_bits.value_or(0)));
  }
  page += "</p>\n";
  Plot plot =
      layer_plot(report, "Drift of each layer", "bits", [](const RoutingFigures& f) { return f.drift_bits; });
  Plot::Line chance = {.name = "all domains, by chance", .points = {}, .is_dashed = true, .is_main = true};
  for (const RoutingFigures& layer : report.all.layers) {
    if (layer.drift_chance_bits) chance.points.emplace_back(layer.layer, *layer.drift_chance_bits);
  }
  plot.lines.push_back(std::move(chance));
  page += html_legend(plot.lines) + "<div class=\"grid\">\n";
  add_figure(plot, "layer-drift", page);
  page += "</div></section>\n";
}

}  // namespace soli::profile_page
