#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/eval_report.h"
#include "observe/line_plot.h"

namespace soli::cli {

inline constexpr size_t kMaxSweepPoints = 64;

/// One value of a control that is swept over.
struct SweepValue {
  std::string value;  // as it was written
  RoutingPolicy policy;
};

/// "KEY=A..B", whole numbers from A to B, or "KEY=V,W,...", where values that have commas themselves are
/// separated by ';'. `base` is the policy to which each value is added. Fails naming what is wrong.
Result<std::vector<SweepValue>> parse_sweep(std::string_view text, const RoutingPolicy& base);

struct EvalSweepPoint {
  std::string value;
  RoutingPolicy policy;
  Comparison figures;
  std::vector<OfDomain<Comparison>> domains;
  /// No other point has at most its active parameters and at most its mean KL, and less of one.
  bool on_front = false;
};

void mark_front(std::vector<EvalSweepPoint>& points);

nlohmann::ordered_json to_json(const std::vector<EvalSweepPoint>& points);
std::string render_text(const std::string& sweep, const std::vector<EvalSweepPoint>& points);
/// Mean KL over the active parameters.
Plot plot_of(const std::string& sweep, const std::vector<EvalSweepPoint>& points);

}  // namespace soli::cli
