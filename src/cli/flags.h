#pragma once

// Options whose values are checked while the command line is read. CLI11's own conversions take "0x1f", an
// octal "010" and "nan"; these do not.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace soli::cli {

/// A whole number in decimal digits, from min to max.
struct IntegerRange {
  int64_t min;
  int64_t max;
};
CLI::Option* add_integer(CLI::App& app, const std::string& names, int64_t& value, IntegerRange range,
                         const std::string& what);

/// Such numbers, separated by commas, at most kMaxListed; or "none".
inline constexpr size_t kMaxListed = 64;
CLI::Option* add_integers(CLI::App& app, const std::string& names, std::vector<int64_t>& values,
                          IntegerRange range, const std::string& what);

/// A finite number from min to max; min itself is refused where min_is_open.
struct NumberRange {
  double min;
  double max;
  bool min_is_open = false;
};
CLI::Option* add_number(CLI::App& app, const std::string& names, double& value, NumberRange range,
                        const std::string& what);

/// An amount of memory with its unit.
CLI::Option* add_bytes(CLI::App& app, const std::string& names, int64_t& value, const std::string& what);

/// Any text. An empty one counts as given.
CLI::Option* add_text(CLI::App& app, const std::string& names, std::optional<std::string>& value,
                      const std::string& what);

/// A path. An empty one is refused: it would be taken for an option that was not given.
CLI::Option* add_path(CLI::App& app, const std::string& names, std::string& value, const std::string& what);

/// Whole numbers from 0 to 2^31 - 1, separated by commas; at least one.
CLI::Option* add_token_ids(CLI::App& app, const std::string& names, std::vector<int32_t>& value,
                           const std::string& what);

/// Throws the usage error "<option>: '<text>' is not one of <allowed>".
[[noreturn]] void refuse_choice(const std::string& names, const std::string& text,
                                const std::string& allowed);

/// One of a few names, each with its value. The present value is shown as the default.
template <typename T>
CLI::Option* add_choice(CLI::App& app, const std::string& names, T& value,
                        std::vector<std::pair<std::string, T>> choices, const std::string& what) {
  std::string allowed;
  std::string chosen;
  for (const auto& [name, its_value] : choices) {
    allowed += (allowed.empty() ? "" : ",") + name;
    if (its_value == value) chosen = name;
  }
  const auto set = [&value, choices, names, allowed](const std::string& text) {
    for (const auto& [name, its_value] : choices) {
      if (name == text) {
        value = its_value;
        return;
      }
    }
    refuse_choice(names, text, allowed);
  };
  return app.add_option_function<std::string>(names, set, what)
      ->type_name("{" + allowed + "}")
      ->default_str(chosen);
}

}  // namespace soli::cli
