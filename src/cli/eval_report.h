#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/eval_measure.h"

namespace soli::cli {

/// One text's part of a report.
template <typename Figures>
struct OfDomain {
  std::string name;
  Figures figures;
};

nlohmann::ordered_json to_json(const EvalResult& result);
nlohmann::ordered_json to_json(const Comparison& comparison);

/// What every report in JSON begins with.
nlohmann::ordered_json eval_setup_json(const EvalOptions& options, Session& session,
                                       const RoutingPolicy& policy);

std::string render_text(const EvalResult& result);
std::string render_text(const Comparison& comparison);
/// A line for each domain.
std::string render_text(const std::vector<OfDomain<EvalResult>>& domains);
std::string render_text(const std::vector<OfDomain<Comparison>>& domains);

}  // namespace soli::cli
