#include "cli/flags.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/units.h"
#include "base/utf8.h"

namespace soli::cli {
namespace {

template <typename T>
std::optional<T> parse_whole(const std::string& text) {
  T number{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || rest != end) return std::nullopt;
  return number;
}

/// "1,2" gives "1" and "2"; of "" and "1," there is an empty part.
std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// The longest name of an option: "-n,--predict" gives "--predict".
std::string long_name(const std::string& names) { return names.substr(names.rfind(',') + 1); }

[[noreturn]] void refuse(const std::string& names, const std::string& text, const std::string& allowed) {
  throw CLI::ValidationError(long_name(names), fmt::format("'{}' is not {}", printable(text), allowed));
}

std::string describe(IntegerRange range) {
  if (range.max == std::numeric_limits<int64_t>::max()) {
    return fmt::format("a whole number of at least {}", range.min);
  }
  return fmt::format("a whole number from {} to {}", range.min, range.max);
}

std::string describe(NumberRange range) {
  if (range.min_is_open) return fmt::format("a number above {} and at most {}", range.min, range.max);
  return fmt::format("a number from {} to {}", range.min, range.max);
}

}  // namespace

CLI::Option* add_integer(CLI::App& app, const std::string& names, int64_t& value, IntegerRange range,
                         const std::string& what) {
  const auto set = [&value, range, names](const std::string& text) {
    const std::optional<int64_t> number = parse_whole<int64_t>(text);
    if (!number || *number < range.min || *number > range.max) refuse(names, text, describe(range));
    value = *number;
  };
  return app.add_option_function<std::string>(names, set, what)
      ->type_name("N")
      ->default_str(std::to_string(value));
}

CLI::Option* add_integers(CLI::App& app, const std::string& names, std::vector<int64_t>& values,
                          IntegerRange range, const std::string& what) {
  const auto set = [&values, range, names](const std::string& text) {
    values.clear();
    if (text == "none") return;
    for (const std::string& part : split_at_commas(text)) {
      const std::optional<int64_t> number = parse_whole<int64_t>(part);
      if (!number || *number < range.min || *number > range.max) {
        refuse(names, part, describe(range) + "; several are separated by commas, and 'none' is allowed");
      }
      values.push_back(*number);
    }
    if (values.size() > kMaxListed) refuse(names, text, fmt::format("a list of at most {}", kMaxListed));
  };
  return app.add_option_function<std::string>(names, set, what)
      ->type_name("N,N,...")
      ->default_str(fmt::format("{}", fmt::join(values, ",")));
}

CLI::Option* add_number(CLI::App& app, const std::string& names, double& value, NumberRange range,
                        const std::string& what) {
  const auto set = [&value, range, names](const std::string& text) {
    const std::optional<double> number = parse_whole<double>(text);
    const bool allowed = number && std::isfinite(*number) && *number <= range.max &&
                         (range.min_is_open ? *number > range.min : *number >= range.min);
    if (!allowed) refuse(names, text, describe(range));
    value = *number;
  };
  return app.add_option_function<std::string>(names, set, what)
      ->type_name("X")
      ->default_str(fmt::format("{:g}", value));
}

CLI::Option* add_bytes(CLI::App& app, const std::string& names, int64_t& value, const std::string& what) {
  const auto set = [&value, names](const std::string& text) {
    const Result<int64_t> bytes = parse_bytes(long_name(names), text);
    if (!bytes) throw CLI::ValidationError(bytes.error().message);
    value = *bytes;
  };
  return app.add_option_function<std::string>(names, set, what)->type_name("BYTES");
}

CLI::Option* add_text(CLI::App& app, const std::string& names, std::optional<std::string>& value,
                      const std::string& what) {
  // CLI11's own conversion to an optional takes "" for none.
  const auto set = [&value](const std::string& text) { value = text; };
  return app.add_option_function<std::string>(names, set, what)->type_name("TEXT");
}

CLI::Option* add_path(CLI::App& app, const std::string& names, std::string& value, const std::string& what) {
  const auto set = [&value, names](const std::string& text) {
    if (text.empty()) refuse(names, text, "a path");
    value = text;
  };
  return app.add_option_function<std::string>(names, set, what)->type_name("FILE");
}

CLI::Option* add_token_ids(CLI::App& app, const std::string& names, std::vector<int32_t>& value,
                           const std::string& what) {
  const auto set = [&value, names](const std::string& text) {
    value.clear();
    for (const std::string& part : split_at_commas(text)) {
      const std::optional<int32_t> id = parse_whole<int32_t>(part);
      if (!id || *id < 0) refuse(names, part, "a token id: whole numbers from 0, separated by commas");
      value.push_back(*id);
    }
  };
  return app.add_option_function<std::string>(names, set, what)->type_name("ID,ID,...");
}

void refuse_choice(const std::string& names, const std::string& text, const std::string& allowed) {
  refuse(names, text, "one of " + allowed);
}

}  // namespace soli::cli
