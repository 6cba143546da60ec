// Filters that apply another filter, or a test, to every element.
#include "base/utf8.h"
#include "format/jinja/filters.h"
#include "format/jinja/operators.h"
#include "format/jinja/sorting.h"
#include "format/jinja/tests.h"

namespace soli::jinja {
namespace {

/// map('upper'), map('replace', 'a', 'b') or map(attribute='name', default='x').
Result<Value> map(Context& context, const Value& subject, const Arguments& arguments) {
  if (!subject.truthy()) return context.list({});  // none, too, has no elements here
  SOLI_ASSIGN_OR_RETURN(const std::vector<Value> elements, elements_of(context, subject));
  std::vector<Value> mapped;
  if (arguments.positional.empty()) {
    SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("map", arguments, {"attribute", "default"}, 1));
    for (const Value& one : elements) {
      SOLI_ASSIGN_OR_RETURN(Value value, attribute_of(context, one, bound[0]));
      if (value.is_undefined() && bound.has(1)) value = bound[1];
      mapped.push_back(std::move(value));
    }
    return context.list(std::move(mapped));
  }
  SOLI_ASSIGN_OR_RETURN(const std::string_view name, text_argument("map", arguments.positional[0], ""));
  const Filter* const filter = find_filter(name);
  if (filter == nullptr) {
    return fail(ErrorKind::kUnsupported, "map: there is no filter '{}'; there are {}", printable(name),
                filter_names());
  }
  // A map within a map would nest as deep as its arguments go.
  if (filter->apply == map) return fail(ErrorKind::kUnsupported, "map: 'map' cannot be mapped");
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin());
  for (const Value& one : elements) {
    SOLI_ASSIGN_OR_RETURN(Value value, filter->apply(context, one, rest));
    mapped.push_back(std::move(value));
  }
  return context.list(std::move(mapped));
}

/// Keeps the elements for which the test named by an argument holds (or does not); without one, the true
/// ones.
Result<Value> choose(Context& context, const Value& subject, const Arguments& arguments, bool by_attribute,
                     bool keep) {
  if (!subject.truthy()) return context.list({});  // none, too, has no elements here
  SOLI_ASSIGN_OR_RETURN(const std::vector<Value> elements, elements_of(context, subject));
  const size_t n_before = by_attribute ? 1 : 0;
  if (arguments.positional.size() < n_before) {
    return fail(ErrorKind::kInvalidArgument, "selectattr and rejectattr want the name of an attribute");
  }
  Arguments rest = arguments;
  const Value attribute = by_attribute ? rest.positional[0] : Value();
  rest.positional.erase(rest.positional.begin(), rest.positional.begin() + static_cast<ptrdiff_t>(n_before));
  const Test* test = nullptr;
  if (!rest.positional.empty()) {
    SOLI_ASSIGN_OR_RETURN(const std::string_view name, text_argument("select", rest.positional[0], ""));
    test = find_test(name);
    if (test == nullptr) {
      return fail(ErrorKind::kUnsupported, "select: there is no test '{}'; there are {}", printable(name),
                  test_names());
    }
    rest.positional.erase(rest.positional.begin());
  }
  std::vector<Value> chosen;
  for (const Value& one : elements) {
    SOLI_ASSIGN_OR_RETURN(const Value value, attribute_of(context, one, attribute));
    bool holds = value.truthy();
    if (test != nullptr) {
      SOLI_ASSIGN_OR_RETURN(holds, test->holds(context, value, rest));
    }
    if (holds == keep) chosen.push_back(one);
  }
  return context.list(std::move(chosen));
}

template <bool kByAttribute, bool kKeep>
Result<Value> choose_if(Context& context, const Value& subject, const Arguments& arguments) {
  return choose(context, subject, arguments, kByAttribute, kKeep);
}

constexpr Filter kSelectionFilters[] = {
    {"map", map},
    {"reject", choose_if<false, false>},
    {"rejectattr", choose_if<true, false>},
    {"select", choose_if<false, true>},
    {"selectattr", choose_if<true, true>},
};

}  // namespace

std::span<const Filter> selection_filters() { return kSelectionFilters; }

}  // namespace soli::jinja
