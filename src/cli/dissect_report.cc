#include "cli/dissect_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/csv.h"
#include "base/utf8.h"

namespace soli::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostNamed = 4;      // experts in a line
constexpr size_t kWidestMatrix = 16;  // experts
constexpr size_t kWidestDomain = 24;

std::string domain_name(const std::string& name) { return printable(name, kWidestDomain); }

size_t domain_width(const Dissection& dissection) {
  size_t width = 6;
  for (const auto& domain : dissection.exact) width = std::max(width, domain_name(domain.name).size());
  return width;
}

/// "layer:expert", or the number alone where it stands for all layers.
std::string label(const DissectTarget& target) {
  return target.layer ? fmt::format("{}:{}", *target.layer, target.expert) : std::to_string(target.expert);
}

std::string with_error(const LossChange& change) {
  if (!change.error) return fmt::format("{:+.4f}", change.nats_per_token);
  return fmt::format("{:+.4f} +- {:.4f}", change.nats_per_token, *change.error);
}

std::string first_ones(const Dissection& dissection, size_t domain, const std::vector<size_t>& order) {
  std::string text;
  for (size_t i = 0; i < std::min(kMostNamed, order.size()); ++i) {
    const DissectedExpert& expert = dissection.experts[order[i]];
    text += fmt::format("{}{} {}", i > 0 ? ", " : "", label(expert.target),
                        with_error(expert.domains[domain].change));
  }
  if (order.size() > kMostNamed) text += fmt::format(", and {} more", order.size() - kMostNamed);
  return order.empty() ? "none for certain" : text;
}

std::string domain_lines(const Dissection& dissection) {
  const size_t width = domain_width(dissection);
  const bool without = dissection.mode == DissectMode::kWithout;
  std::string text = fmt::format("{:<{}} {:>8} {:>11}  {}\n", "domain", width, "tokens", "perplexity",
                                 without ? "needs (nats per token without)" : "best alone (nats per token)");
  for (size_t d = 0; d < dissection.exact.size(); ++d) {
    const Perplexity perplexity = dissection.exact[d].figures.perplexity();
    const std::vector<size_t> order = without ? dissection.needed_by(d) : dissection.by_change(d);
    text += fmt::format("{:<{}} {:>8} {:>11.4f}  {}\n", domain_name(dissection.exact[d].name), width,
                        perplexity.n_tokens, perplexity.perplexity(), first_ones(dissection, d, order));
  }
  return text;
}

std::string missed_by_nobody_line(const Dissection& dissection) {
  if (!dissection.complete) return "interrupted: which experts nobody misses cannot be told\n";
  const std::vector<size_t> found = dissection.missed_by_nobody();
  std::string text;
  for (const size_t i : found) text += " " + label(dissection.experts[i].target);
  return fmt::format("nobody misses (at most {} nats per token in every domain): {} of {}{}{}\n",
                     dissection.tolerance, found.size(), dissection.experts.size(), found.empty() ? "" : ":",
                     text);
}

std::string matrix(const Dissection& dissection) {
  const size_t width = domain_width(dissection);
  std::string text = fmt::format("\nthousandths of a nat per token\n{:<{}}", "domain", width);
  for (const DissectedExpert& expert : dissection.experts)
    text += fmt::format(" {:>6}", label(expert.target));
  for (size_t d = 0; d < dissection.exact.size(); ++d) {
    text += fmt::format("\n{:<{}}", domain_name(dissection.exact[d].name), width);
    for (const DissectedExpert& expert : dissection.experts) {
      text += d < expert.domains.size()
                  ? fmt::format(" {:>6.0f}", 1000 * expert.domains[d].change.nats_per_token)
                  : fmt::format(" {:>6}", "");
    }
  }
  return text + "\n";
}

Json label_json(const DissectTarget& target) {
  Json json = Json::object();
  json["layer"] = target.layer ? Json(*target.layer) : Json("all");
  json["expert"] = target.expert;
  return json;
}

Json cell_json(const Dissection& dissection, const std::string& domain, const DissectCell& cell) {
  const auto interval = interval_of(cell.change, dissection.n_cells());
  return {{"name", domain},
          {"calls", cell.n_calls},
          {"change", cell.change.nats_per_token},
          {"error", cell.change.error ? Json(*cell.change.error) : Json()},
          {"low", interval ? Json(interval->low) : Json()},
          {"high", interval ? Json(interval->high) : Json()}};
}

Json expert_json(const Dissection& dissection, const DissectedExpert& expert) {
  Json json = label_json(expert.target);
  json["domains"] = Json::array();
  for (size_t d = 0; d < expert.domains.size(); ++d)
    json["domains"].push_back(cell_json(dissection, dissection.exact[d].name, expert.domains[d]));
  return json;
}

Json targets_json(const Dissection& dissection, const std::vector<size_t>& order) {
  Json json = Json::array();
  for (const size_t i : order) json.push_back(label_json(dissection.experts[i].target));
  return json;
}

}  // namespace

Json to_json(const Dissection& dissection) {
  const bool without = dissection.mode == DissectMode::kWithout;
  Json json = {{"mode", without ? "without" : "only"},
               {"over", dissection.over_all_layers ? "all" : "layer"},
               {"tolerance", dissection.tolerance},
               {"complete", dissection.complete}};
  json["domains"] = Json::array();
  for (size_t d = 0; d < dissection.exact.size(); ++d) {
    Json domain = {{"name", dissection.exact[d].name}};
    domain.update(to_json(dissection.exact[d].figures));
    if (without) domain["needs"] = targets_json(dissection, dissection.needed_by(d));
    json["domains"].push_back(std::move(domain));
  }
  json["experts"] = Json::array();
  for (const DissectedExpert& expert : dissection.experts)
    json["experts"].push_back(expert_json(dissection, expert));
  if (without && dissection.complete)
    json["missed_by_nobody"] = targets_json(dissection, dissection.missed_by_nobody());
  return json;
}

std::string render_text(const Dissection& dissection) {
  std::string text = domain_lines(dissection);
  if (dissection.mode == DissectMode::kWithout) text += "\n" + missed_by_nobody_line(dissection);
  if (dissection.experts.size() <= kWidestMatrix) text += matrix(dissection);
  return text;
}

std::string render_csv(const Dissection& dissection) {
  std::string text = "domain,layer,expert,calls,tokens,exact_nats_per_token,change,error\n";
  for (const DissectedExpert& expert : dissection.experts) {
    for (size_t d = 0; d < expert.domains.size(); ++d) {
      const DissectCell& cell = expert.domains[d];
      text += fmt::format("{},{},{},{},{},{},{},{}\n", csv_field(dissection.exact[d].name),
                          expert.target.layer ? std::to_string(*expert.target.layer) : "all",
                          expert.target.expert, cell.n_calls, cell.change.n_tokens,
                          dissection.exact[d].figures.perplexity().nats_per_token, cell.change.nats_per_token,
                          cell.change.error ? fmt::to_string(*cell.change.error) : "");
    }
  }
  return text;
}

}  // namespace soli::cli
