#pragma once

#include <string>

#include "observe/activation_report.h"

namespace soli {

/// Writes every choice of a request, the sizes that a recount needs, and the report itself, as one JSON
/// object of format "soli-routing-1", token by token, so that no second copy stands in memory. Fails with
/// kNotFound or kIo; no half file is ever seen.
Status write_routing_json(const std::string& path, const RequestChoices& choices, const ModelSpec& spec,
                          const ParameterCounts& counts, int64_t n_prompt, const ActivationReport& report);

}  // namespace soli
