#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace soli::cli {

/// Writes to stdout, buffered, or to stderr. Never throws, which fmt::print() would do on a full disk:
/// whether stdout arrived, flush_output() says, and there is nobody to tell about stderr.
void write_output(std::string_view text);
void write_note(std::string_view text);

template <typename... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  write_output(fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void print_note(fmt::format_string<Args...> format, Args&&... args) {
  write_note(fmt::format(format, std::forward<Args>(args)...));
}

/// Prints "soli: message" to stderr.
void print_error(const Error& error);

/// Prints one JSON value and a newline to stdout. Text in it that is not UTF-8 is shown with U+FFFD.
void print_json(const nlohmann::ordered_json& value);

/// Writes text to stdout at once. On a terminal, control characters other than newline and tab are replaced
/// by U+FFFD, so that the output of a model cannot steer it. Whether it arrived, flush_output() says.
void write_text(std::string_view text);

/// Whether stdout is a terminal that may be coloured: not where NO_COLOR says otherwise (no-color.org).
bool may_colour_output();

/// Fails with kIo when something that was printed to stdout did not arrive, such as on a full disk.
Status flush_output();

}  // namespace soli::cli
