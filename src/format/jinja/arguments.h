#pragma once

// Arguments of a call, and how a function made here takes them.

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/jinja/context.h"

namespace soli::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// Arguments by parameter.
class Bound {
 public:
  explicit Bound(std::vector<Value> values) : values_(std::move(values)) {}
  /// The argument, or an undefined value where it was not given.
  const Value& operator[](size_t i) const { return values_[i]; }
  bool has(size_t i) const { return !values_[i].is_undefined(); }
  bool truthy_or(size_t i, bool fallback) const { return has(i) ? values_[i].truthy() : fallback; }

 private:
  std::vector<Value> values_;
};

/// Gives each argument to its parameter, the first `n_required` of which must be there. Fails with
/// kInvalidArgument naming `function` and what it takes.
Result<Bound> bind(std::string_view function, const Arguments& arguments,
                   std::initializer_list<std::string_view> parameters, size_t n_required = 0);

// One argument as a C++ value; `what` names it in errors ("indent: width").
Result<int64_t> int_argument(std::string_view what, const Value& value, int64_t fallback);
Result<std::string_view> text_argument(std::string_view what, const Value& value, std::string_view fallback);
/// A width within [0, kMaxWidth].
Result<size_t> width_argument(std::string_view what, const Value& value, size_t fallback);

}  // namespace soli::jinja
