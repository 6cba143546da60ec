#pragma once

#include <nlohmann/json.hpp>

#include "format/jinja/context.h"

namespace soli::jinja {

/// A value of JSON as a value of a template. Fails with kLimit where it nests too deep or is too large, and
/// for a whole number beyond 63 bits, which would not stay the number that it is.
Result<Value> from_json(Context& context, const nlohmann::ordered_json& json, int depth = 0);

}  // namespace soli::jinja
