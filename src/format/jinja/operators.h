#pragma once

// What operators do with values, as in Python. Errors are kInvalidArgument naming the types.

#include <optional>
#include <vector>

#include "format/jinja/context.h"

namespace soli::jinja {

enum class BinaryOperator { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
enum class Comparison { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };

Result<Value> apply(Context& context, BinaryOperator op, const Value& a, const Value& b);
Result<Value> negate(const Value& value);
Result<Value> plus(const Value& value);

Result<bool> compare(Context& context, Comparison op, const Value& a, const Value& b);
/// Charges every element that is looked at. False for values of different types; 1 == 1.0 == True.
Result<bool> equal(Context& context, const Value& a, const Value& b);
/// a < b. Fails where Python has no order for the two.
Result<bool> less(Context& context, const Value& a, const Value& b);
Result<bool> contains(Context& context, const Value& container, const Value& item);

/// Keeps one entry per key, see Context::dict.
Status merge_equal_keys(Context& context, std::vector<Dict::Entry>& entries);
/// The value of a key of any type, or nullptr.
Result<const Value*> find_key(Context& context, const Dict& dict, const Value& key);

/// value[index] for strings, lists and mappings: undefined where nothing is there.
Result<Value> element(Context& context, const Value& value, const Value& index);
/// value[start:stop:step]; absent or none: the default of Python.
Result<Value> slice(Context& context, const Value& value, const Value& start, const Value& stop,
                    const Value& step);

/// What a for-loop goes over: characters, elements, keys. Undefined has none.
Result<std::vector<Value>> elements_of(Context& context, const Value& value);
/// len(value), 0 for undefined.
Result<int64_t> length(Context& context, const Value& value);

/// An undefined value that says "'dict object' has no attribute 'x'".
Value missing_attribute(const Value& value, std::string_view name);
Value undefined_because(std::string why);

/// The sum, or kLimit: integers have 64 bits here, not any number of them.
Result<int64_t> checked_add(int64_t a, int64_t b);

}  // namespace soli::jinja
