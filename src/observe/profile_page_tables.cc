#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <span>

#include "observe/html_text.h"
#include "observe/profile_page.h"

namespace soli::profile_page {
namespace {

using PageJson = nlohmann::ordered_json;

struct Column {
  const char* key;  // of the JSON
  const char* heading;
};

constexpr Column kVerdictColumns[] = {{"tokens", "tokens"},
                                      {"verdict", "verdict"},
                                      {"verdict_is_certain", "firm"},
                                      {"share_variation", "CV"},
                                      {"share_variation_interval", "CV, 95 %"},
                                      {"never_called", "never called"},
                                      {"never_called_interval", "never called, 95 %"},
                                      {"information_bits", "information, bits"},
                                      {"information_test", "information: p, sample, permuted"},
                                      {"stability", "stability"},
                                      {"stability_test", "stability: p, sample, permuted"}};

constexpr Column kAllColumns[] = {{"tokens", "tokens"},
                                  {"calls_total", "calls"},
                                  {"mean_k", "k"},
                                  {"k_spread", "spread of k"},
                                  {"effective_experts", "effective experts"},
                                  {"effective_experts_spread", "their spread"},
                                  {"gate_entropy_bits", "gate entropy, bits"},
                                  {"gate_entropy_spread", "its spread"},
                                  {"routing_entropy_bits", "routing entropy, bits"},
                                  {"routing_entropy_normalised", "of its maximum"},
                                  {"hottest", "hottest: layer, expert, share"},
                                  {"coldest", "coldest: layer, expert, share"},
                                  {"share_variation", "CV"},
                                  {"share_variation_interval", "CV, 95 %"},
                                  {"share_max_over_mean", "largest share / mean"},
                                  {"never_called", "never called"},
                                  {"never_called_interval", "never called, 95 %"},
                                  {"distinct_experts", "distinct experts"},
                                  {"stability", "stability"},
                                  {"stability_test", "stability: p, sample, permuted"},
                                  {"top1_change_rate", "top-1 changes"},
                                  {"margin", "margin"},
                                  {"information_bits", "information, bits"},
                                  {"information_test", "information: p, sample, permuted"},
                                  {"verdict", "verdict"},
                                  {"verdict_is_certain", "firm"},
                                  {"drift_bits", "drift, bits"},
                                  {"drift_chance_bits", "drift by chance, bits"}};

/// A number, an interval, a test, an expert of a layer, a word; or "–" for what there is not.
std::string cell_text(const PageJson& value) {
  if (value.is_null()) return "–";
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number_integer()) return fmt::to_string(value.get<int64_t>());
  if (value.is_number()) return shown_number(value.get<double>());
  if (value.is_array()) return fmt::format("{} to {}", cell_text(value[0]), cell_text(value[1]));
  if (value.is_object() && value.contains("p")) {
    return fmt::format("{}, {}, {}", cell_text(value["p"]), cell_text(value["sample"]),
                       cell_text(value["permuted"]));
  }
  if (value.is_object()) {
    return fmt::format("{}, {}, {}", cell_text(value["layer"]), cell_text(value["expert"]),
                       cell_text(value["share"]));
  }
  return html_text(value.get<std::string>());
}

void begin_table(const std::string& kind, const std::string& caption, const char* first,
                 std::span<const Column> columns, std::string& page) {
  page += fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\">\n<table "
      "class=\"{1}\"><caption>{0}"
      "</caption>\n<thead><tr><th scope=\"col\">{2}</th>",
      caption, kind, first);
  for (const Column& column : columns)
    page += fmt::format("<th scope=\"col\" data-key=\"{}\">{}</th>", column.key, column.heading);
  page += "</tr></thead>\n<tbody>\n";
}

void add_cells(const PageJson& figures, std::span<const Column> columns, std::string& page) {
  for (const Column& column : columns) page += "<td>" + cell_text(figures.at(column.key));
  page += '\n';  // the ends of cells and rows may be left out
}

void end_table(std::string& page) { page += "</tbody></table></div>\n"; }

/// Calls `visit` with "all" and the whole, and "0", "1", ... and each domain.
template <typename Visit>
void for_each_target(const PageJson& json, Visit visit) {
  visit("all", json.at("all"));
  size_t d = 0;
  for (const PageJson& domain : json.at("domains")) visit(fmt::to_string(d++), domain);
}

/// A table of the list `member` of each target's figures over layers.
void add_bin_table(const PageJson& json, const char* member, const char* caption,
                   std::span<const Column> columns, std::string& page) {
  page += "<details><summary>Table</summary>";
  begin_table(member, caption, "domain", columns, page);
  for_each_target(json, [&](const std::string& key, const PageJson& target) {
    for (const PageJson& bin : target.at("total").at(member)) {
      page += fmt::format("<tr data-target=\"{}\"><th scope=\"row\"><bdi>{}</bdi></th>", key,
                          html_text(target.at("name").get<std::string>()));
      add_cells(bin, columns, page);
    }
  });
  end_table(page);
  page += "</details>\n";
}

}  // namespace

void add_verdict_table(const PageJson& json, std::string& page) {
  begin_table("verdicts", "Verdicts, over layers", "domain", kVerdictColumns, page);
  for_each_target(json, [&](const std::string& key, const PageJson& target) {
    page += fmt::format("<tr data-target=\"{}\"><th scope=\"row\"><bdi>{}</bdi></th>", key,
                        html_text(target.at("name").get<std::string>()));
    add_cells(target.at("total"), kVerdictColumns, page);
  });
  end_table(page);
}

void add_position_table(const PageJson& json, std::string& page) {
  constexpr Column kColumns[] = {{"first_position", "from position"},
                                 {"tokens", "tokens"},
                                 {"mean_k", "k"},
                                 {"effective_experts", "effective experts"},
                                 {"gate_entropy_bits", "gate entropy, bits"}};
  add_bin_table(json, "positions", "By position, means over layers", kColumns, page);
}

void add_batch_table(const PageJson& json, std::string& page) {
  constexpr Column kColumns[] = {{"tokens", "tokens"},
                                 {"batches", "batches"},
                                 {"distinct_experts", "distinct experts"},
                                 {"expected_union", "expected experts"},
                                 {"sharing_gain", "sharing gain"}};
  add_bin_table(json, "batches", "By number of consecutive tokens, sums over layers", kColumns, page);
}

void add_figure_tables(const PageJson& json, std::string& page) {
  for_each_target(json, [&](const std::string& key, const PageJson& target) {
    const std::string name = html_text(target.at("name").get<std::string>());
    page += fmt::format("<details{}><summary><bdi>{}</bdi></summary>\n", key == "all" ? " open" : "", name);
    begin_table("figures", "Figures of each layer: " + name, "layer", kAllColumns, page);
    for (const PageJson& layer : target.at("layers")) {
      const auto number = layer.at("layer").get<int64_t>();
      page += fmt::format("<tr data-target=\"{}\" data-layer=\"{}\"><th scope=\"row\">{}</th>", key, number,
                          number);
      add_cells(layer, kAllColumns, page);
    }
    page += fmt::format("<tr data-target=\"{}\"><th scope=\"row\">over layers</th>", key);
    add_cells(target.at("total"), kAllColumns, page);
    end_table(page);
    page += "</details>\n";
  });
}

}  // namespace soli::profile_page
