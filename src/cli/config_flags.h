#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "serve/api_keys.h"

namespace CLI {
class App;
}

namespace soli::cli {

/// Gives the options of a command the values of a configuration file: every long name, without its dashes, is
/// a key. What the command line has given already stays. Returns the keys of the tables [[api-key]]. Errors
/// name the file and the line: a key that is no option, a value that the option does not take.
Result<std::vector<serve::ApiKey>> apply_config(CLI::App& app, const std::string& path);

}  // namespace soli::cli
