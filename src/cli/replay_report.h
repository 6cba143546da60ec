#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/replay_model.h"

namespace soli::cli {

std::string render_text(const ReplayFigures& figures);
nlohmann::ordered_json to_json(const ReplayFigures& figures);

const char* name_of(ReplayWeights weights);

}  // namespace soli::cli
