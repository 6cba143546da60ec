#pragma once

// Checks for our own mistakes. Nothing that comes from outside may reach one.

#include <fmt/format.h>

namespace soli {

/// Prints file, line and message to stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, const std::string& message);

}  // namespace soli

/// SOLI_CHECK(condition) or SOLI_CHECK(condition, "format", args...). Always compiled in.
#define SOLI_CHECK(condition, ...)                                                                \
  do {                                                                                            \
    if (!(condition)) [[unlikely]] {                                                              \
      ::soli::check_failed(__FILE__, __LINE__,                                                    \
                           std::string(#condition) __VA_OPT__(+": " + fmt::format(__VA_ARGS__))); \
    }                                                                                             \
  } while (false)
