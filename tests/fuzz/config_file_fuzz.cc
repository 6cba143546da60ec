// Any configuration file is refused with an error that names a line, or gives keys with values; any file of
// API keys likewise.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/utf8.h"
#include "serve/api_keys.h"
#include "serve/config_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = soli::serve::parse_config(text, "f");
  if (config) {
    for (const soli::serve::Setting& setting : config->settings) {
      SOLI_CHECK(!setting.values.empty() && setting.line > 0);
      for (const std::string& value : setting.values) SOLI_CHECK(soli::is_valid_utf8(value));
    }
    (void)soli::serve::ApiKeys::create(config->api_keys);
  } else {
    SOLI_CHECK(config.error().message.starts_with("f:") && soli::is_valid_utf8(config.error().message));
  }
  const auto keys = soli::serve::parse_key_lines(text, "f");
  if (!keys) {
    SOLI_CHECK(keys.error().message.starts_with("f:"));
    return 0;
  }
  for (const soli::serve::ApiKey& key : *keys)
    SOLI_CHECK(key.key.size() >= soli::serve::ApiKeys::kMinKeyBytes);
  const auto made = soli::serve::ApiKeys::create(*keys);
  if (!made) return 0;
  for (size_t i = 0; i < made->size(); ++i) SOLI_CHECK(made->find((*made)[i].key) == i);
  return 0;
}
