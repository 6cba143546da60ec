#pragma once

// One logger to stderr (spdlog's default). Standard output belongs to what the user asked for.

#include <spdlog/spdlog.h>

#include <string_view>

#include "base/result.h"

namespace soli {

/// Sets the level ("trace", "debug", "info", "warn", "error", "off") and the format of soli's log on stderr.
Status init_log(std::string_view level);

}  // namespace soli
