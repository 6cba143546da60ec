#pragma once

#include <toml++/toml.h>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace soli {

/// How deep a key, a list or a table of TOML may lie in others.
inline constexpr size_t kMaxTomlDepth = 32;

/// Parses a text that came from anywhere; `name` stands for it in errors. Fails with kLimit beyond
/// `most_bytes`, and with kMalformed, naming the line, for what is no TOML, and for keys and lists nested
/// more than kMaxTomlDepth deep: in one line, or below a [header], dots and open brackets count together. So
/// whoever walks through the table, or frees it, recurses no deeper than twice that.
Result<toml::table> parse_toml(std::string_view text, const std::string& name, size_t most_bytes);

}  // namespace soli
