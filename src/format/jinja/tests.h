#pragma once

// The tests that templates may use after `is`.

#include <string>
#include <string_view>

#include "format/jinja/arguments.h"

namespace soli::jinja {

struct Test {
  std::string_view name;
  Result<bool> (*holds)(Context& context, const Value& subject, const Arguments& arguments);
};

/// The test of that name, or nullptr.
const Test* find_test(std::string_view name);
/// All names, with commas between.
std::string test_names();

}  // namespace soli::jinja
