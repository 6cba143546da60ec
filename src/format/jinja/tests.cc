#include "format/jinja/tests.h"

#include "format/jinja/filters.h"
#include "format/jinja/operators.h"
#include "format/jinja/printing.h"
#include "format/jinja/unicode.h"

namespace soli::jinja {
namespace {

/// A test that looks at the type alone.
template <bool (*kHolds)(const Value&)>
Result<bool> by_type(Context& /*context*/, const Value& subject, const Arguments& arguments) {
  SOLI_RETURN_IF_ERROR(bind("test", arguments, {}));
  return kHolds(subject);
}

template <Comparison kOperator>
Result<bool> by_comparison(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("test", arguments, {"other"}, 1));
  return compare(context, kOperator, subject, bound[0]);
}

bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is_none(); }
bool is_string(const Value& value) { return value.is_text(); }
bool is_number(const Value& value) { return value.is_number(); }  // as in Python, a bool too
bool is_integer(const Value& value) { return value.is_int(); }
bool is_float(const Value& value) { return value.is_float(); }
bool is_boolean(const Value& value) { return value.is_bool(); }
bool is_true(const Value& value) { return value.is_bool() && value.as_bool(); }
bool is_false(const Value& value) { return value.is_bool() && !value.as_bool(); }
bool is_mapping(const Value& value) { return value.dict() != nullptr; }
bool is_sequence(const Value& value) {
  return value.is_text() || value.list() != nullptr || value.dict() != nullptr || value.is_undefined();
}
bool is_iterable(const Value& value) {
  return is_sequence(value) || value.object_as<Object>(Object::Kind::kLoop) != nullptr;
}
bool is_callable(const Value& value) {
  return value.object() != nullptr && value.object_as<Object>(Object::Kind::kNamespace) == nullptr;
}

Result<bool> is_multiple(Context& context, const Value& subject, const Value& divisor, int64_t remainder) {
  SOLI_ASSIGN_OR_RETURN(const Value rest, apply(context, BinaryOperator::kModulo, subject, divisor));
  return equal(context, rest, Value(remainder));
}

Result<bool> odd(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_RETURN_IF_ERROR(bind("odd", arguments, {}));
  return is_multiple(context, subject, Value(int64_t{2}), 1);
}

Result<bool> even(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_RETURN_IF_ERROR(bind("even", arguments, {}));
  return is_multiple(context, subject, Value(int64_t{2}), 0);
}

Result<bool> divisible_by(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("divisibleby", arguments, {"num"}, 1));
  return is_multiple(context, subject, bound[0], 0);
}

Result<bool> same_as(Context& /*context*/, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("sameas", arguments, {"other"}, 1));
  return subject.same_as(bound[0]);
}

/// Whether some letter has the case and none another, as str.isupper() and str.islower().
Result<bool> has_case(Context& context, const Value& subject, bool upper) {
  SOLI_ASSIGN_OR_RETURN(const Value text, to_text(context, subject));
  SOLI_RETURN_IF_ERROR(context.work(text.bytes().size()));
  bool found = false;
  for (std::string_view rest = text.bytes(); !rest.empty();) {
    size_t bytes = 0;
    const uint32_t c = front(rest, bytes);
    if (upper ? is_lower(c) : is_upper(c)) return false;
    found = found || (upper ? is_upper(c) : is_lower(c));
    rest.remove_prefix(bytes);
  }
  return found;
}

Result<bool> upper(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_RETURN_IF_ERROR(bind("upper", arguments, {}));
  return has_case(context, subject, true);
}

Result<bool> lower(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_RETURN_IF_ERROR(bind("lower", arguments, {}));
  return has_case(context, subject, false);
}

Result<bool> names_filter(Context& /*context*/, const Value& subject, const Arguments& arguments) {
  SOLI_RETURN_IF_ERROR(bind("filter", arguments, {}));
  return subject.is_text() && find_filter(subject.bytes()) != nullptr;
}

Result<bool> names_test(Context& /*context*/, const Value& subject, const Arguments& arguments) {
  SOLI_RETURN_IF_ERROR(bind("test", arguments, {}));
  return subject.is_text() && find_test(subject.bytes()) != nullptr;
}

constexpr Test kTests[] = {
    {"!=", by_comparison<Comparison::kNotEqual>},
    {"<", by_comparison<Comparison::kLess>},
    {"<=", by_comparison<Comparison::kLessEqual>},
    {"==", by_comparison<Comparison::kEqual>},
    {">", by_comparison<Comparison::kGreater>},
    {">=", by_comparison<Comparison::kGreaterEqual>},
    {"boolean", by_type<is_boolean>},
    {"callable", by_type<is_callable>},
    {"defined", by_type<is_defined>},
    {"divisibleby", divisible_by},
    {"eq", by_comparison<Comparison::kEqual>},
    {"equalto", by_comparison<Comparison::kEqual>},
    {"even", even},
    {"false", by_type<is_false>},
    {"filter", names_filter},
    {"float", by_type<is_float>},
    {"ge", by_comparison<Comparison::kGreaterEqual>},
    {"greaterthan", by_comparison<Comparison::kGreater>},
    {"gt", by_comparison<Comparison::kGreater>},
    {"in", by_comparison<Comparison::kIn>},
    {"integer", by_type<is_integer>},
    {"iterable", by_type<is_iterable>},
    {"le", by_comparison<Comparison::kLessEqual>},
    {"lessthan", by_comparison<Comparison::kLess>},
    {"lower", lower},
    {"lt", by_comparison<Comparison::kLess>},
    {"mapping", by_type<is_mapping>},
    {"ne", by_comparison<Comparison::kNotEqual>},
    {"none", by_type<is_none>},
    {"number", by_type<is_number>},
    {"odd", odd},
    {"sameas", same_as},
    {"sequence", by_type<is_sequence>},
    {"string", by_type<is_string>},
    {"test", names_test},
    {"true", by_type<is_true>},
    {"undefined", by_type<is_undefined>},
    {"upper", upper},
};

}  // namespace

const Test* find_test(std::string_view name) {
  for (const Test& test : kTests) {
    if (test.name == name) return &test;
  }
  return nullptr;
}

std::string test_names() {
  std::string names;
  for (const Test& test : kTests) names.append(names.empty() ? "" : ", ").append(test.name);
  return names;
}

}  // namespace soli::jinja
