#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "observe/heat_map.h"
#include "observe/html_text.h"
#include "observe/profile_page.h"

namespace soli::profile_page {
namespace {

/// Cells of all tables of calls together; a page of more has that of all domains only, or none.
constexpr size_t kMostTableCells = 20'000;

/// Its share of the calls of the layer times the number of experts: 1 is the fair share.
double times_fair(const RoutingFigures& layer, size_t expert) {
  if (layer.n_calls == 0) return 0;
  return static_cast<double>(layer.calls[expert]) / static_cast<double>(layer.n_calls) *
         static_cast<double>(layer.calls.size());
}

/// What a cell of a map is about.
struct Extreme {
  int64_t layer = -1;
  size_t expert = 0;
  double value = 0;
};

std::string words_of(const Extreme& extreme) {
  return fmt::format("expert {} of layer {} ({} fair shares)", extreme.expert, extreme.layer,
                     shown_number(extreme.value));
}

class Maps {
 public:
  Maps(const ProfileReport& report, std::string& page) : report_(report), page_(page) {
    for (const Target& target : targets_of(report_)) {
      for (const double value : shares_of(*target.report)) most_share_ = std::max(most_share_, value);
      for (const double value : differences_of(*target.report))
        most_difference_ = std::max(most_difference_, std::abs(value));
    }
    const size_t n_cells = report.all.layers.size() * static_cast<size_t>(report.n_experts);
    all_have_tables_ = n_cells * (report.domains.size() + 1) <= kMostTableCells;
    has_table_ = n_cells <= kMostTableCells;
  }

  void add() {
    legends();
    const std::vector<Target> targets = targets_of(report_);
    page_ += "<h3>All domains together</h3>\n<div class=\"grid\">\n";
    share_map(targets.front());
    page_ += "</div>\n";
    for (size_t t = 1; t < targets.size(); ++t) {
      print("<h3><bdi>{}</bdi></h3>\n<div class=\"grid\">\n", html_text(targets[t].report->name));
      share_map(targets[t]);
      difference_map(targets[t]);
      page_ += "</div>\n";
    }
  }

 private:
  template <typename... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(page_), format, std::forward<Args>(args)...);
  }

  std::vector<double> shares_of(const TargetReport& target) const {
    std::vector<double> values;
    for (const RoutingFigures& layer : target.layers) {
      for (size_t e = 0; e < layer.calls.size(); ++e) values.push_back(times_fair(layer, e));
    }
    return values;
  }
  std::vector<double> differences_of(const TargetReport& target) const {
    std::vector<double> values = shares_of(target);
    const std::vector<double> of_all = shares_of(report_.all);
    for (size_t i = 0; i < values.size(); ++i) values[i] -= of_all[i];
    return values;
  }

  Extreme extreme_at(std::vector<double>::const_iterator at, const std::vector<double>& values) const {
    const auto place = static_cast<size_t>(at - values.begin());
    const auto n_experts = static_cast<size_t>(report_.n_experts);
    return {report_.all.layers[place / n_experts].layer, place % n_experts, *at};
  }

  void legends() {
    page_ +=
        "<p>Rows are layers, columns are experts. The colour is an expert's share of its layer's calls, in "
        "fair "
        "shares: 1 is what it had if all experts were called equally often. One scale holds for all maps. "
        "Point at "
        "a cell, or walk with the arrow keys, to read it.</p>\n<div class=\"grid\">\n";
    page_ += "<figure><figcaption>Share, in fair shares</figcaption>\n" +
             colour_legend_svg(most_share_, false, "legend-share",
                               fmt::format("Colours from dark blue, 0, to yellow, {} fair shares",
                                           shown_number(most_share_))) +
             "</figure>\n";
    if (most_difference_ > 0) {
      page_ +=
          "<figure><figcaption>Domain minus all domains, in fair shares</figcaption>\n" +
          colour_legend_svg(most_difference_, true, "legend-difference",
                            fmt::format("Colours from blue, {} fair shares less than of all domains, over "
                                        "white to red, as many more",
                                        shown_number(most_difference_))) +
          "</figure>\n";
    }
    page_ += "</div>\n";
  }

  HeatMap map_of(std::vector<double> values, double most, bool has_two_sides) const {
    HeatMap map = {.rows = {},
                   .n_columns = report_.n_experts,
                   .values = std::move(values),
                   .most = most,
                   .has_two_sides = has_two_sides};
    for (const RoutingFigures& layer : report_.all.layers) map.rows.push_back(layer.layer);
    return map;
  }

  void share_map(const Target& target) {
    const std::vector<double> values = shares_of(*target.report);
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    const std::string title = fmt::format("Shares of the experts: {}", target.report->name);
    const std::string description =
        fmt::format("Most called: {}; least called: {}.", words_of(extreme_at(most, values)),
                    words_of(extreme_at(least, values)));
    figure(target, "share", "Share of each expert", title, description, map_of(values, most_share_, false));
    if (has_table_ && (all_have_tables_ || target.key == "all")) table_of_calls(target);
    page_ += "</figure>\n";
  }

  void difference_map(const Target& target) {
    const std::vector<double> values = differences_of(*target.report);
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    const std::string title = fmt::format("Shares of the experts: {} minus all domains", target.report->name);
    const std::string description =
        fmt::format("Largest surplus: {}; largest lack: {}.", words_of(extreme_at(most, values)),
                    words_of(extreme_at(least, values)));
    figure(target, "difference", "Difference from all domains", title, description,
           map_of(values, most_difference_, true));
    page_ += "</figure>\n";
  }

  /// Is left open.
  void figure(const Target& target, const char* kind, const char* caption, const std::string& title,
              const std::string& description, const HeatMap& map) {
    print("<figure><figcaption>{}. {}</figcaption>\n", caption, html_text(description));
    page_ += heat_map_svg(map, fmt::format("map-{}-{}", kind, target.key), title,
                          "Layers by experts. " + description,
                          fmt::format("data-target=\"{}\" data-kind=\"{}\"", target.key, kind));
    page_ += "<output aria-live=\"polite\"></output>\n";
  }

  void table_of_calls(const Target& target) {
    print(
        "<details><summary>Table of calls</summary><div class=\"scroll\" tabindex=\"0\" role=\"region\" "
        "aria-label=\"Calls of each expert: {0}\">\n<table class=\"calls\" "
        "data-target=\"{1}\"><caption>Calls of "
        "each expert, by layer: <bdi>{0}</bdi></caption>\n<thead><tr><th scope=\"col\">layer</th>",
        html_text(target.report->name), target.key);
    for (int64_t e = 0; e < report_.n_experts; ++e) print("<th scope=\"col\">{}", e);
    page_ += "</tr></thead>\n<tbody>\n";
    for (const RoutingFigures& layer : target.report->layers) {
      print("<tr><th scope=\"row\">{}", layer.layer);
      for (const int64_t calls : layer.calls) print("<td>{}", calls);
      page_ += '\n';  // the ends of cells and rows may be left out
    }
    page_ += "</tbody></table></div></details>\n";
  }

  const ProfileReport& report_;
  std::string& page_;
  double most_share_ = 1;  // the fair share is in the scale
  double most_difference_ = 0;
  bool has_table_ = false;
  bool all_have_tables_ = false;
};

}  // namespace

void add_heat_maps(const ProfileReport& report, std::string& page) { Maps(report, page).add(); }

}  // namespace soli::profile_page
