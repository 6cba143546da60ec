#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "plan/machine.h"

namespace soli::cli {

/// What the machine has and what it reached, for people and as JSON.
std::string render_text(const MachineInfo& machine, const MachineCeilings& ceilings);
nlohmann::ordered_json to_json(const MachineInfo& machine, const MachineCeilings& ceilings);
nlohmann::ordered_json to_json(const MachineCeilings& ceilings);

}  // namespace soli::cli
