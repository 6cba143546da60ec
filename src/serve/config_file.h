#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/api_keys.h"

namespace soli::serve {

/// One key of a configuration file: a flag without its dashes.
struct Setting {
  std::string key;
  std::vector<std::string> values;  // as on a command line; more than one from a list
  int64_t line = 0;
  bool is_text = false;  // and no number or truth; of a list: all of it
};

struct ConfigFile {
  std::vector<Setting> settings;
  std::vector<ApiKey> api_keys;  // the tables [[api-key]]
};

inline constexpr size_t kMaxConfigBytes = size_t{1} << 20;

/// Reads TOML: texts, whole numbers, numbers, true and false, lists of these, and [[api-key]] tables with
/// key, name, tenant, max-experts-per-token, allow-policy and priority. Whether a setting means anything is
/// not known here. Fails with kMalformed or kLimit, naming path and line.
Result<ConfigFile> parse_config(std::string_view text, const std::string& path);

}  // namespace soli::serve
