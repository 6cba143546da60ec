#pragma once

// The methods of strings, lists and mappings that templates may call: those of Python that change nothing.

#include <string_view>

#include "format/jinja/filters.h"

namespace soli::jinja {

/// The method of that name for the type of the value, or nullptr.
const Filter* find_method(const Value& value, std::string_view name);
/// Whether the name is a method of the type in Python that would change the value: a template must not.
bool is_changing_method(const Value& value, std::string_view name);

std::span<const Filter> text_methods();
std::span<const Filter> text_search_methods();

}  // namespace soli::jinja
