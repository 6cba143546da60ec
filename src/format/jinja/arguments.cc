#include "format/jinja/arguments.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/utf8.h"

namespace soli::jinja {

Result<Bound> bind(std::string_view function, const Arguments& arguments,
                   std::initializer_list<std::string_view> parameters, size_t n_required) {
  const auto takes = [&] {
    return parameters.size() == 0 ? std::string("no argument")
                                  : fmt::format("({})", fmt::join(parameters, ", "));
  };
  if (arguments.positional.size() > parameters.size()) {
    return fail(ErrorKind::kInvalidArgument, "{}: {} arguments; it takes {}", function,
                arguments.positional.size(), takes());
  }
  std::vector<Value> values(parameters.size());
  std::vector<bool> given(parameters.size());
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    values[i] = arguments.positional[i];
    given[i] = true;
  }
  for (const auto& [name, value] : arguments.named) {
    const auto* const found = std::find(parameters.begin(), parameters.end(), name);
    const auto i = static_cast<size_t>(found - parameters.begin());
    if (found == parameters.end() || given[i]) {
      return fail(ErrorKind::kInvalidArgument, "{}: argument '{}' is {}; it takes {}", function,
                  printable(name), found == parameters.end() ? "unknown" : "given twice", takes());
    }
    values[i] = value;
    given[i] = true;
  }
  for (size_t i = 0; i < n_required; ++i) {
    if (!given[i]) {
      return fail(ErrorKind::kInvalidArgument, "{}: argument '{}' is missing; it takes {}", function,
                  parameters.begin()[i], takes());
    }
  }
  return Bound(std::move(values));
}

Result<int64_t> int_argument(std::string_view what, const Value& value, int64_t fallback) {
  if (value.is_undefined()) return fallback;
  if (value.is_integral()) return value.as_int();
  return fail(ErrorKind::kInvalidArgument, "{}: a {} where a whole number is wanted", what, type_name(value));
}

Result<std::string_view> text_argument(std::string_view what, const Value& value, std::string_view fallback) {
  if (value.is_undefined()) return fallback;
  if (value.is_text()) return value.bytes();
  return fail(ErrorKind::kInvalidArgument, "{}: a {} where a string is wanted", what, type_name(value));
}

Result<size_t> width_argument(std::string_view what, const Value& value, size_t fallback) {
  SOLI_ASSIGN_OR_RETURN(const int64_t width, int_argument(what, value, static_cast<int64_t>(fallback)));
  if (width > static_cast<int64_t>(kMaxWidth)) {
    return fail(ErrorKind::kLimit, "{}: {}; at most {} is allowed", what, width, kMaxWidth);
  }
  return static_cast<size_t>(std::max<int64_t>(width, 0));
}

}  // namespace soli::jinja
