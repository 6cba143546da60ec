#pragma once

#include <string>

namespace CLI {
class App;
}

namespace soli::cli {

/// A completion script for `shell` ("bash", "zsh" or "fish") with all commands and options of a program.
/// Values from a list are offered; where an option takes anything else, file names are.
std::string completion_script(const CLI::App& program, const std::string& shell);

}  // namespace soli::cli
