#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "observe/html_text.h"
#include "observe/profile_page.h"

namespace soli::profile_page {
namespace {

constexpr size_t kShownSpecialists = 12;  // of a layer and a domain

std::string pairs_of(const RoutingFigures& layer) {
  std::string text;
  for (const ExpertPair& pair : layer.pairs) {
    if (pair.n_tokens == 0) continue;
    text +=
        fmt::format("{}{}+{}&nbsp;×{}", text.empty() ? "" : ", ", pair.a, pair.b, shown_number(pair.lift));
  }
  return text.empty() ? "–" : text;
}

std::string clusters_of(const RoutingFigures& layer) {
  std::string text;
  for (const std::vector<int64_t>& cluster : layer.clusters)
    text += fmt::format("{}{{{}}}", text.empty() ? "" : " ", fmt::join(cluster, ", "));
  return text.empty() ? "–" : text;
}

void add_pair_table(const Target& target, std::string& page) {
  const std::string name = html_text(target.report->name);
  page += fmt::format(
      "<details{}><summary><bdi>{}</bdi></summary><div class=\"scroll\" tabindex=\"0\" role=\"region\" "
      "aria-label=\"Pairs of experts: {}\">\n<table class=\"words\"><caption>Pairs of the largest lift, and "
      "clusters "
      "of pairs of a lift of {} or more: <bdi>{}</bdi></caption>\n<thead><tr><th scope=\"col\">layer</th><th "
      "scope=\"col\">pairs</th><th scope=\"col\">clusters</th></tr></thead>\n<tbody>\n",
      target.key == "all" ? " open" : "", name, name, kClusterLift, name);
  for (const RoutingFigures& layer : target.report->layers) {
    page += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td></tr>\n", layer.layer,
                        pairs_of(layer), clusters_of(layer));
  }
  page += "</tbody></table></div></details>\n";
}

/// "17 ×3.2, 4 ×1.9": those of one layer in one domain, by lift.
std::string specialists_in(const RoutingFigures& layer, const std::string& domain) {
  std::vector<Specialist> found;
  for (const Specialist& specialist : layer.specialists) {
    if (specialist.domain == domain) found.push_back(specialist);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Specialist& a, const Specialist& b) { return a.lift > b.lift; });
  std::string text;
  for (size_t i = 0; i < std::min(found.size(), kShownSpecialists); ++i)
    text += fmt::format("{}{}&nbsp;×{:.3g}", i == 0 ? "" : ", ", found[i].expert, found[i].lift);
  if (found.size() > kShownSpecialists) text += fmt::format(" and {} more", found.size() - kShownSpecialists);
  return text.empty() ? "–" : text;
}

}  // namespace

void add_coactivation(const ProfileReport& report, std::string& page) {
  page += fmt::format(
      "<p>The lift of a pair is how often two experts were chosen for the same token, divided by how often "
      "that would "
      "be if they were chosen independently; pairs count where the latter are {} tokens or more. Clusters "
      "are what "
      "pairs of a lift of {} or more join: their connected components, and so not every two of their experts "
      "need be "
      "such a pair.</p>\n",
      RoutingFigures::kLeastExpected, kClusterLift);
  bool has_pairs = false;
  for (const RoutingFigures& layer : report.all.layers)
    has_pairs = has_pairs || (!layer.pairs.empty() && layer.pairs.front().n_tokens > 0);
  if (!has_pairs) {
    page +=
        "<p>There are no such pairs: a token has one expert, there is too little text, or the model has too "
        "many "
        "experts to count pairs of them.</p>\n";
    return;
  }
  for (const Target& target : targets_of(report)) add_pair_table(target, page);
}

void add_specialists(const ProfileReport& report, std::string& page) {
  page += fmt::format(
      "<p>Experts whose share of a domain's calls is {} times their share of all calls, or more, and whose "
      "calls there "
      "lie {} standard deviations or more above what a shuffling of the tokens gives. × is the first of the "
      "two.</p>\n",
      kSpecialistLift, kSpecialistDeviations);
  if (report.domains.size() < 2) {
    page += "<p>With one domain there are none.</p>\n";
    return;
  }
  page +=
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Specialists\">\n<table "
      "class=\"words\"><caption>Specialists of each domain, by layer</caption>\n<thead><tr><th "
      "scope=\"col\">layer</th>";
  for (const TargetReport& domain : report.domains)
    page += fmt::format("<th scope=\"col\"><bdi>{}</bdi></th>", html_text(domain.name));
  page += "</tr></thead>\n<tbody>\n";
  for (const RoutingFigures& layer : report.all.layers) {
    page += fmt::format("<tr><th scope=\"row\">{}</th>", layer.layer);
    for (const TargetReport& domain : report.domains)
      page += fmt::format("<td>{}</td>", specialists_in(layer, domain.name));
    page += "</tr>\n";
  }
  page += "</tbody></table></div>\n";
}

}  // namespace soli::profile_page
