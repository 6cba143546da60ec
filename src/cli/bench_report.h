#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/bench_measure.h"

namespace soli::cli {

/// On what, and how: the beginning of every report of bench.
std::string render_setup(Session& session, const BenchOptions& options);
nlohmann::ordered_json setup_json(Session& session, const BenchOptions& options);

/// Median, least and most: "40.31 (39.88 to 40.52)", and as JSON.
std::string measured_text(const Measured& measured);
nlohmann::ordered_json measured_json(const Measured& measured);

/// The whole report, with the set-up before what was measured.
std::string render_text(Session& session, const BenchOptions& options, const BenchFigures& figures);
nlohmann::ordered_json to_json(Session& session, const BenchOptions& options, const BenchFigures& figures);

}  // namespace soli::cli
