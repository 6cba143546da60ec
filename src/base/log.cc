#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>

namespace soli {

Status init_log(std::string_view level) {
  constexpr std::array<std::string_view, 6> kLevels = {"trace", "debug", "info", "warn", "error", "off"};
  if (std::find(kLevels.begin(), kLevels.end(), level) == kLevels.end()) {
    return fail(ErrorKind::kInvalidArgument, "log level '{}' is unknown; allowed: {}", level,
                fmt::join(kLevels, ", "));
  }
  auto logger = std::make_shared<spdlog::logger>("soli", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  logger->set_level(spdlog::level::from_str(std::string(level)));
  spdlog::set_default_logger(std::move(logger));
  return {};
}

}  // namespace soli
