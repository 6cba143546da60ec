#include "serve/config_file.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

#include "base/utf8.h"
#include "format/toml_text.h"

namespace soli::serve {
namespace {

int64_t line_of(const toml::node& node) { return static_cast<int64_t>(node.source().begin.line); }

tl::unexpected<Error> wrong(const std::string& path, int64_t line, const std::string& what) {
  return fail(ErrorKind::kMalformed, "{}:{}: {}", path, line, what);
}

/// What would stand on a command line.
std::optional<std::string> text_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
  return {};
}

Result<Setting> read_setting(const std::string& key, const toml::node& node, const std::string& path) {
  Setting setting{.key = key, .values = {}, .line = line_of(node), .is_text = node.is_string()};
  const auto refuse = [&] {
    return wrong(path, setting.line,
                 fmt::format("'{}': a text, a number, true, false, or a list of these", printable(key)));
  };
  if (const toml::array* list = node.as_array()) {
    setting.is_text =
        std::all_of(list->begin(), list->end(), [](const auto& item) { return item.is_string(); });
    for (const toml::node& item : *list) {
      std::optional<std::string> text = text_of(item);
      if (!text) return refuse();
      setting.values.push_back(*std::move(text));
    }
    if (setting.values.empty())
      return wrong(path, setting.line, fmt::format("'{}': the list is empty", printable(key)));
    return setting;
  }
  std::optional<std::string> text = text_of(node);
  if (!text) return refuse();
  setting.values.push_back(*std::move(text));
  return setting;
}

Result<int64_t> read_integer(const std::string& key, const toml::node& node, const std::string& path,
                             int64_t least, int64_t most) {
  const auto* number = node.as_integer();
  if (number == nullptr || number->get() < least || number->get() > most) {
    return wrong(path, line_of(node),
                 fmt::format("api-key: '{}' is a whole number from {} to {}", key, least, most));
  }
  return number->get();
}

Result<PolicyAllowance> read_allowance(const toml::node& node, const std::string& path) {
  const auto* text = node.as_string();
  if (text == nullptr) return wrong(path, line_of(node), "api-key: 'allow-policy' is a text");
  auto allowance = PolicyAllowance::parse(text->get());
  if (allowance) return allowance;
  return wrong(path, line_of(node), "api-key: 'allow-policy': " + allowance.error().message);
}

Result<ApiKey> read_api_key(const toml::table& table, const std::string& path) {
  ApiKey key;
  for (const auto& [name, node] : table) {
    const std::string field(name.str());
    std::string* const text_field = field == "key"      ? &key.key
                                    : field == "name"   ? &key.name
                                    : field == "tenant" ? &key.tenant
                                                        : nullptr;
    if (text_field != nullptr) {
      const auto* text = node.as_string();
      if (text == nullptr) return wrong(path, line_of(node), fmt::format("api-key: '{}' is a text", field));
      *text_field = text->get();
    } else if (field == "max-experts-per-token") {
      SOLI_ASSIGN_OR_RETURN(key.max_experts_per_token, read_integer(field, node, path, 0, 65'536));
    } else if (field == "allow-policy") {
      SOLI_ASSIGN_OR_RETURN(key.allow_policy, read_allowance(node, path));
    } else if (field == "priority") {
      SOLI_ASSIGN_OR_RETURN(key.priority, read_integer(field, node, path, -1000, 1000));
    } else {
      return wrong(
          path, line_of(node),
          fmt::format(
              "api-key: '{}' is not known; key, name, tenant, priority, max-experts-per-token, allow-policy",
              printable(field)));
    }
  }
  if (key.key.empty()) return wrong(path, line_of(table), "api-key: there is no 'key'");
  return key;
}

Status read_api_keys(const toml::node& node, const std::string& path, ConfigFile& config) {
  const toml::array* const list = node.as_array();
  if (list == nullptr || !list->is_array_of_tables())
    return wrong(path, line_of(node), "'api-key' is a list of tables: [[api-key]]");
  if (list->size() > ApiKeys::kMaxKeys)
    return wrong(path, line_of(node), fmt::format("more than {} keys", ApiKeys::kMaxKeys));
  for (const toml::node& item : *list) {
    SOLI_ASSIGN_OR_RETURN(ApiKey key, read_api_key(*item.as_table(), path));
    config.api_keys.push_back(std::move(key));
  }
  return {};
}

}  // namespace

Result<ConfigFile> parse_config(std::string_view text, const std::string& path) {
  SOLI_ASSIGN_OR_RETURN(const toml::table table, parse_toml(text, path, kMaxConfigBytes));
  ConfigFile config;
  for (const auto& [name, node] : table) {
    const std::string key(name.str());
    if (key == "api-key") {
      SOLI_RETURN_IF_ERROR(read_api_keys(node, path, config));
      continue;
    }
    SOLI_ASSIGN_OR_RETURN(Setting setting, read_setting(key, node, path));
    config.settings.push_back(std::move(setting));
  }
  std::sort(config.settings.begin(), config.settings.end(),
            [](const Setting& a, const Setting& b) { return a.line < b.line; });
  return config;
}

}  // namespace soli::serve
