#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "experts/cache_policy.h"
#include "experts/heat.h"

namespace soli {

inline constexpr int64_t kMaxHeatFileBytes = int64_t{32} << 20;

/// What a file of heat must belong to.
struct HeatOwner {
  std::string model;      // a name or fingerprint, whatever the caller tells its models apart by
  int64_t n_layers = 0;   // with experts
  int64_t n_experts = 0;  // per layer
};

/// Writes the heats as they are now, as JSON:
/// {"format":"soli-heat","version":1,"model":...,"n_layers":...,"n_experts":...,"half_life_tokens":...,"tokens":...,
///  "heat":[[...],...]}, a row per layer. Fails as FileWriter does; no half file is ever seen.
Status save_heat(const std::string& path, std::string_view model, const Heat& heat);

/// Reads such a file; the heat goes on from there, with the file's half-life. Fails with kNotFound, kIo,
/// kLimit, kUnsupported or kMalformed, naming the file, the member, what it is and what is allowed: another
/// model or shape is refused, and so are numbers that no heat can be.
Result<Heat> load_heat(const std::string& path, const HeatOwner& owner);
/// The same from a file's text; `name` stands for the file in errors.
Result<Heat> parse_heat(std::string_view text, const std::string& name, const HeatOwner& owner);

/// All experts with any heat, the hottest first; of two equal ones the lower number.
std::vector<ExpertNumber> hottest_first(const Heat& heat);

}  // namespace soli
