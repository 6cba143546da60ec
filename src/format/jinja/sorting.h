#pragma once

// Keys of elements, and order by them, for the filters that go by attributes.

#include <vector>

#include "format/jinja/context.h"

namespace soli::jinja {

/// What `attribute` names in an element: "a.b" goes through names and numbers, an integer is an index;
/// undefined: the element itself.
Result<Value> attribute_of(Context& context, const Value& element, const Value& attribute);

/// The key that an element is compared by: its attribute, in lower case unless `case_sensitive`. Several
/// attributes with commas between, where `several`, give a list.
Result<Value> key_of(Context& context, const Value& element, const Value& attribute, bool case_sensitive,
                     bool several = false);

/// Indices of the keys in ascending (or descending) order; equal ones keep theirs. O(n log n) comparisons.
Result<std::vector<size_t>> sorted_order(Context& context, const std::vector<Value>& keys, bool descending);

}  // namespace soli::jinja
