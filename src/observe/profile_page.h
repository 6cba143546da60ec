#pragma once

// The parts of render_html() (observe/profile_report.h). Each appends HTML to a page.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "observe/profile_report.h"

namespace soli::profile_page {

/// The one style sheet; the script that reads heat maps out; and what the page may load, which is nothing but
/// what stands in it (Content-Security-Policy, with the script's SHA-256, which
/// tests/cli/profile_html_test.py checks).
extern const std::string_view kStyleSheet;
extern const std::string_view kScript;
extern const std::string_view kContentPolicy;

/// A domain, or all of them, and how the page names it in attributes: "all", "0", "1", ...
struct Target {
  std::string key;
  const TargetReport* report = nullptr;  // of the ProfileReport
};
/// All domains together, and then each.
std::vector<Target> targets_of(const ProfileReport& report);

/// Four digits, without an exponent where there need be none.
std::string shown_number(double value);
std::string shown_percent(double share);

/// What the verdict, its intervals and the permutation tests mean: a sentence each, as a list.
void add_verdict(const RoutingFigures& total, std::string& page);

void add_heat_maps(const ProfileReport& report, std::string& page);
void add_layer_curves(const ProfileReport& report, std::string& page);
void add_position_curves(const ProfileReport& report, std::string& page);
void add_batch_curves(const ProfileReport& report, std::string& page);
void add_drift(const ProfileReport& report, std::string& page);
void add_coactivation(const ProfileReport& report, std::string& page);
void add_specialists(const ProfileReport& report, std::string& page);

/// Tables of the members of to_json(report, ...), whose keys are the "data-key" of the columns and whose
/// targets and layers are those of the rows.
void add_verdict_table(const nlohmann::ordered_json& json, std::string& page);
void add_position_table(const nlohmann::ordered_json& json, std::string& page);
void add_batch_table(const nlohmann::ordered_json& json, std::string& page);
void add_figure_tables(const nlohmann::ordered_json& json, std::string& page);

}  // namespace soli::profile_page
