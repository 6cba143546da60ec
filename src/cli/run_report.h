#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/generate.h"
#include "cli/run_options.h"
#include "cli/session.h"
#include "observe/activation_recorder.h"
#include "observe/activation_report.h"

namespace soli::cli {

/// One line for people: tokens, seconds and rates of a run, all measured.
std::string timings_line(const Session& session, const Generation& generation);

/// Everything about a run: text, tokens, effective settings, timings, and the report where there is one.
nlohmann::ordered_json run_json(Session& session, const RunOptions& options, const Generation& generation,
                                const std::optional<ActivationReport>& report);

/// The memory report as text, or why there is none.
std::string memory_report_text(const Session& session);

/// Counts the activation report of a generation from what was recorded, and writes the file of
/// --routing-json.
Result<ActivationReport> report_routing(const Session& session, const RunOptions& options,
                                        const ActivationRecorder& recorder, const Generation& generation);

}  // namespace soli::cli
