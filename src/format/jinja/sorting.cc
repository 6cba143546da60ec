#include "format/jinja/sorting.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "format/jinja/operators.h"
#include "format/jinja/unicode.h"

namespace soli::jinja {
namespace {

Result<Value> part_of(Context& context, const Value& element_value, std::string_view part) {
  int64_t index = 0;
  const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), index);
  if (!part.empty() && error == std::errc() && stop == part.data() + part.size() && index >= 0) {
    return element(context, element_value, Value(index));
  }
  SOLI_ASSIGN_OR_RETURN(const Value name, context.text(std::string(part)));
  return element(context, element_value, name);
}

Result<Value> without_case(Context& context, const Value& value) {
  if (!value.is_text()) return value;
  SOLI_RETURN_IF_ERROR(context.room_for(3 * value.bytes().size()));
  return context.text(to_lower(value.bytes()));
}

}  // namespace

Result<Value> attribute_of(Context& context, const Value& element_value, const Value& attribute) {
  if (attribute.is_undefined() || attribute.is_none()) return element_value;
  if (attribute.is_integral()) return element(context, element_value, attribute);
  if (!attribute.is_text()) {
    return fail(ErrorKind::kInvalidArgument, "attribute: a {} where a string or a whole number is wanted",
                type_name(attribute));
  }
  Value value = element_value;
  std::string_view path = attribute.bytes();
  while (true) {
    const size_t dot = std::min(path.find('.'), path.size());
    SOLI_ASSIGN_OR_RETURN(value, part_of(context, value, path.substr(0, dot)));
    if (dot == path.size()) return value;
    path.remove_prefix(dot + 1);
  }
}

Result<Value> key_of(Context& context, const Value& element_value, const Value& attribute,
                     bool case_sensitive, bool several) {
  if (several && attribute.is_text() && attribute.bytes().find(',') != std::string_view::npos) {
    std::vector<Value> keys;
    std::string_view rest = attribute.bytes();
    while (true) {
      const size_t comma = std::min(rest.find(','), rest.size());
      SOLI_ASSIGN_OR_RETURN(const Value one, context.text(std::string(rest.substr(0, comma))));
      SOLI_ASSIGN_OR_RETURN(Value key, key_of(context, element_value, one, case_sensitive));
      keys.push_back(std::move(key));
      if (comma == rest.size()) return context.list(std::move(keys));
      rest.remove_prefix(comma + 1);
    }
  }
  SOLI_ASSIGN_OR_RETURN(const Value key, attribute_of(context, element_value, attribute));
  if (case_sensitive) return key;
  return without_case(context, key);
}

Result<std::vector<size_t>> sorted_order(Context& context, const std::vector<Value>& keys, bool descending) {
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<size_t> merged(keys.size());
  // Written out, since a comparison may fail and need not be an order (NaN).
  for (size_t width = 1; width < order.size(); width *= 2) {
    for (size_t begin = 0; begin < order.size(); begin += 2 * width) {
      size_t left = begin, right = std::min(begin + width, order.size());
      const size_t left_end = right, right_end = std::min(right + width, order.size());
      for (size_t out = begin; out < right_end; ++out) {
        bool take_right = left == left_end;
        if (!take_right && right < right_end) {
          const Value &a = keys[order[left]], &b = keys[order[right]];
          SOLI_ASSIGN_OR_RETURN(take_right, descending ? less(context, a, b) : less(context, b, a));
        }
        merged[out] = take_right ? order[right++] : order[left++];
      }
    }
    order.swap(merged);
  }
  return order;
}

}  // namespace soli::jinja
