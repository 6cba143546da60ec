#pragma once

// The two ways in which Python fills values into a text.

#include <string_view>

#include "format/jinja/arguments.h"

namespace soli::jinja {

/// "%s has %d" % values: conversions s r d i u f F e E g G x X o c and %, with flags, width and precision;
/// values are a tuple, a mapping for %(name)s, or one value. Fails with kInvalidArgument naming the
/// conversion.
Result<Value> format_percent(Context& context, std::string_view format, const Value& values);

/// "{} has {1:>5}".format(...): fields by order, number or name, conversions !s and !r, and the format
/// language for strings and numbers. Attributes and indices within a field are refused.
Result<Value> format_braces(Context& context, std::string_view format, const Arguments& arguments);

}  // namespace soli::jinja
