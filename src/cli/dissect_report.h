#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/dissection.h"

namespace soli::cli {

/// Members of the report in JSON, those of the set-up left out.
nlohmann::ordered_json to_json(const Dissection& dissection);
/// For people: what each domain needs, what nobody misses, and the matrix where it is narrow enough.
std::string render_text(const Dissection& dissection);
/// A line for each domain and expert, with a heading.
std::string render_csv(const Dissection& dissection);

}  // namespace soli::cli
