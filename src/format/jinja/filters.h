#pragma once

// The filters that templates may use.

#include <span>
#include <string>
#include <string_view>

#include "format/jinja/arguments.h"

namespace soli::jinja {

/// A function of a value and further arguments: a filter, or a method of strings, lists and mappings.
struct Filter {
  std::string_view name;
  Result<Value> (*apply)(Context& context, const Value& subject, const Arguments& arguments);
};

/// The filter of that name, or nullptr.
const Filter* find_filter(std::string_view name);
/// All names, with commas between.
std::string filter_names();

// Each family of filters is one file.
std::span<const Filter> text_filters();
std::span<const Filter> sequence_filters();
std::span<const Filter> selection_filters();
std::span<const Filter> value_filters();

/// The entry of that name, or nullptr.
const Filter* find_in(std::span<const Filter> filters, std::string_view name);

}  // namespace soli::jinja
