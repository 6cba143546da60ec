#include "cli/config_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "base/utf8.h"
#include "cli/text_input.h"
#include "serve/config_file.h"

namespace soli::cli {
namespace {

// These say what to do with a configuration, and are no part of one.
constexpr const char* kNoKeys[] = {"help", "config", "check"};

CLI::Option* find_option(CLI::App& app, const std::string& key) {
  const bool is_no_key = std::find(std::begin(kNoKeys), std::end(kNoKeys), key) != std::end(kNoKeys);
  if (is_no_key) return nullptr;
  for (CLI::Option* option : app.get_options()) {
    const std::vector<std::string>& names = option->get_lnames();
    if (std::find(names.begin(), names.end(), key) != names.end()) return option;
    if (option->get_positional() && option->get_name() == key) return option;
  }
  return nullptr;
}

/// Its value is never a number or a truth, so that one of those is a slip.
bool takes_text(const CLI::Option& option) {
  static constexpr std::string_view kTexts[] = {"MODEL", "FILE", "DIR", "HOST", "NAME", "ORIGIN", "TEXT"};
  return std::find(std::begin(kTexts), std::end(kTexts), option.get_type_name()) != std::end(kTexts);
}

Status apply(CLI::Option& option, const serve::Setting& setting) {
  const bool is_flag = option.get_expected_max() == 0;
  const bool takes_one = option.get_multi_option_policy() != CLI::MultiOptionPolicy::TakeAll;
  if (setting.values.size() > 1 && takes_one)
    return fail(ErrorKind::kMalformed, "'{}' takes one value, and not a list", setting.key);
  if (is_flag && setting.values.front() != "true" && setting.values.front() != "false") {
    return fail(ErrorKind::kMalformed, "'{}' is '{}'; true and false are allowed", setting.key,
                printable(setting.values.front()));
  }
  if (is_flag && setting.values.front() == "false") return {};
  if (!setting.is_text && takes_text(option)) {
    const bool is_list = setting.values.size() > 1;
    return fail(ErrorKind::kMalformed, "'{}' is {}; {} allowed, within quotes", setting.key,
                is_list ? "a list of other things too" : printable(setting.values.front()),
                is_list ? "texts are" : "a text is");
  }
  try {
    for (const std::string& value : setting.values) option.add_result(value);
    option.run_callback();
  } catch (const CLI::Error& error) {
    return fail(ErrorKind::kMalformed, "{}", printable(error.what(), 300));
  }
  return {};
}

}  // namespace

Result<std::vector<serve::ApiKey>> apply_config(CLI::App& app, const std::string& path) {
  SOLI_ASSIGN_OR_RETURN(const std::string text,
                        read_text(path, static_cast<int64_t>(serve::kMaxConfigBytes)));
  SOLI_ASSIGN_OR_RETURN(serve::ConfigFile config, serve::parse_config(text, path));
  std::vector<std::pair<const CLI::Option*, std::string>> seen;
  for (const serve::Setting& setting : config.settings) {
    const auto wrong = [&](const std::string& what) {
      return fail(ErrorKind::kMalformed, "{}:{}: {}", path, setting.line, what);
    };
    CLI::Option* const option = find_option(app, setting.key);
    if (option == nullptr) {
      return wrong(fmt::format("'{}' is not known; the keys are the long options of 'soli {} --help'",
                               printable(setting.key), app.get_name()));
    }
    // One option may have two names.
    for (const auto& [other, key] : seen) {
      if (other == option) return wrong(fmt::format("'{}' says again what '{}' has said", setting.key, key));
    }
    seen.emplace_back(option, setting.key);
    if (option->count() > 0) continue;
    if (const Status status = apply(*option, setting); !status) return wrong(status.error().message);
  }
  return std::move(config.api_keys);
}

}  // namespace soli::cli
