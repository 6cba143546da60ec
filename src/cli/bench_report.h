#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/bench_measure.h"

namespace soli::cli {

/// What was measured, on what and how: for people, and as JSON.
std::string render_text(Session& session, const BenchOptions& options, const BenchFigures& figures);
nlohmann::ordered_json to_json(Session& session, const BenchOptions& options, const BenchFigures& figures);

}  // namespace soli::cli
