#pragma once

#include <string_view>

#include "base/result.h"
#include "format/jinja/syntax.h"

namespace soli::jinja {

/// Parses a template. Errors begin with "line N: " and say what was found and what is allowed: kMalformed for
/// what is no Jinja, kUnsupported for a tag that soli does not have, kLimit for what nests or
/// is too long.
Result<Syntax> parse_template(std::string_view source);

}  // namespace soli::jinja
