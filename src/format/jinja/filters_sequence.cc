// Filters that take lists and mappings apart, count, order and join them.
#include <algorithm>

#include "format/jinja/filters.h"
#include "format/jinja/methods.h"
#include "format/jinja/operators.h"
#include "format/jinja/printing.h"
#include "format/jinja/sorting.h"
#include "format/jinja/unicode.h"

namespace soli::jinja {
namespace {

Result<Value> count(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_RETURN_IF_ERROR(bind("length", arguments, {}));
  SOLI_ASSIGN_OR_RETURN(const int64_t n, length(context, subject));
  return Value(n);
}

Result<Value> list(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_RETURN_IF_ERROR(bind("list", arguments, {}));
  SOLI_ASSIGN_OR_RETURN(std::vector<Value> items, elements_of(context, subject));
  return context.list(std::move(items));
}

template <bool kLast>
Result<Value> end_element(Context& context, const Value& subject, const Arguments& arguments) {
  constexpr const char* kName = kLast ? "last" : "first";
  SOLI_RETURN_IF_ERROR(bind(kName, arguments, {}));
  SOLI_ASSIGN_OR_RETURN(const std::vector<Value> items, elements_of(context, subject));
  if (items.empty()) return undefined_because(fmt::format("{}: the sequence is empty", kName));
  return kLast ? items.back() : items.front();
}

Result<Value> reverse(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_RETURN_IF_ERROR(bind("reverse", arguments, {}));
  if (subject.is_text()) return slice(context, subject, Value(None{}), Value(None{}), Value(int64_t{-1}));
  SOLI_ASSIGN_OR_RETURN(std::vector<Value> items, elements_of(context, subject));
  std::reverse(items.begin(), items.end());
  return context.list(std::move(items));
}

Result<Value> join(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("join", arguments, {"d", "attribute"}));
  SOLI_ASSIGN_OR_RETURN(const Value separator, to_text(context, bound[0]));
  SOLI_ASSIGN_OR_RETURN(const std::vector<Value> items, elements_of(context, subject));
  TextBuilder out(context);
  for (size_t i = 0; i < items.size() && !out.failed(); ++i) {
    if (i > 0) out.append(separator.bytes());
    SOLI_ASSIGN_OR_RETURN(const Value item, attribute_of(context, items[i], bound[1]));
    append_value(out, item);
  }
  return out.finish_value();
}

Result<Value> items_of_mapping(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_RETURN_IF_ERROR(bind("items", arguments, {}));
  if (subject.is_undefined()) return context.list({});
  if (subject.dict() == nullptr) {
    return fail(ErrorKind::kInvalidArgument, "items: a {} where a mapping is wanted", type_name(subject));
  }
  return find_method(subject, "items")->apply(context, subject, {});
}

Result<Value> in_order(Context& context, const std::vector<Value>& elements, const std::vector<Value>& keys,
                       bool descending) {
  SOLI_ASSIGN_OR_RETURN(const std::vector<size_t> order, sorted_order(context, keys, descending));
  std::vector<Value> sorted;
  sorted.reserve(order.size());
  for (const size_t i : order) sorted.push_back(elements[i]);
  return context.list(std::move(sorted));
}

Result<Value> sort(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound,
                        bind("sort", arguments, {"reverse", "case_sensitive", "attribute"}));
  SOLI_ASSIGN_OR_RETURN(const std::vector<Value> elements, elements_of(context, subject));
  std::vector<Value> keys;
  for (const Value& one : elements) {
    SOLI_ASSIGN_OR_RETURN(Value key, key_of(context, one, bound[2], bound.truthy_or(1, false), true));
    keys.push_back(std::move(key));
  }
  return in_order(context, elements, keys, bound.truthy_or(0, false));
}

Result<Value> sort_dict(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("dictsort", arguments, {"case_sensitive", "by", "reverse"}));
  SOLI_ASSIGN_OR_RETURN(const std::string_view by, text_argument("dictsort: by", bound[1], "key"));
  if (by != "key" && by != "value") return fail(ErrorKind::kInvalidArgument, "dictsort: by is key or value");
  if (subject.dict() == nullptr) {
    return fail(ErrorKind::kInvalidArgument, "dictsort: a {} where a mapping is wanted", type_name(subject));
  }
  SOLI_ASSIGN_OR_RETURN(const Value pairs, find_method(subject, "items")->apply(context, subject, {}));
  std::vector<Value> keys;
  for (const Value& pair : pairs.list()->items) {
    SOLI_ASSIGN_OR_RETURN(Value key, key_of(context, pair.list()->items[by == "value" ? 1 : 0], Value(),
                                            bound.truthy_or(0, false)));
    keys.push_back(std::move(key));
  }
  return in_order(context, pairs.list()->items, keys, bound.truthy_or(2, false));
}

Result<Value> unique(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("unique", arguments, {"case_sensitive", "attribute"}));
  SOLI_ASSIGN_OR_RETURN(const std::vector<Value> elements, elements_of(context, subject));
  std::vector<Value> keys, kept;
  for (const Value& one : elements) {
    SOLI_ASSIGN_OR_RETURN(Value key, key_of(context, one, bound[1], bound.truthy_or(0, false)));
    bool seen = false;
    for (size_t i = 0; i < keys.size() && !seen; ++i) {
      SOLI_ASSIGN_OR_RETURN(seen, equal(context, keys[i], key));
    }
    if (seen) continue;
    keys.push_back(std::move(key));
    kept.push_back(one);
  }
  return context.list(std::move(kept));
}

template <bool kMaximum>
Result<Value> extreme(Context& context, const Value& subject, const Arguments& arguments) {
  constexpr std::string_view kName = kMaximum ? "max" : "min";
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind(kName, arguments, {"case_sensitive", "attribute"}));
  SOLI_ASSIGN_OR_RETURN(const std::vector<Value> elements, elements_of(context, subject));
  if (elements.empty()) return undefined_because(fmt::format("{}: the sequence is empty", kName));
  size_t best = 0;
  Value best_key;
  for (size_t i = 0; i < elements.size(); ++i) {
    SOLI_ASSIGN_OR_RETURN(Value key, key_of(context, elements[i], bound[1], bound.truthy_or(0, false)));
    bool better = i == 0;
    if (!better) {
      SOLI_ASSIGN_OR_RETURN(better, kMaximum ? less(context, best_key, key) : less(context, key, best_key));
    }
    if (!better) continue;
    best = i;
    best_key = std::move(key);
  }
  return elements[best];
}

Result<Value> sum(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("sum", arguments, {"attribute", "start"}));
  SOLI_ASSIGN_OR_RETURN(const std::vector<Value> elements, elements_of(context, subject));
  Value total = bound.has(1) ? bound[1] : Value(int64_t{0});
  for (const Value& one : elements) {
    SOLI_ASSIGN_OR_RETURN(const Value value, attribute_of(context, one, bound[0]));
    SOLI_ASSIGN_OR_RETURN(total, apply(context, BinaryOperator::kAdd, total, value));
  }
  return total;
}

/// Lists of `linecount` elements; the last is filled up where there is something to fill it with.
Result<Value> batch(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("batch", arguments, {"linecount", "fill_with"}, 1));
  SOLI_ASSIGN_OR_RETURN(const size_t width, width_argument("batch: linecount", bound[0], 0));
  if (width == 0) return fail(ErrorKind::kInvalidArgument, "batch: linecount is at least 1");
  SOLI_ASSIGN_OR_RETURN(const std::vector<Value> elements, elements_of(context, subject));
  std::vector<Value> rows;
  for (size_t begin = 0; begin < elements.size(); begin += width) {
    const size_t end = std::min(begin + width, elements.size());
    std::vector<Value> row(elements.begin() + static_cast<ptrdiff_t>(begin),
                           elements.begin() + static_cast<ptrdiff_t>(end));
    if (bound.has(1) && !bound[1].is_none()) row.resize(width, bound[1]);
    SOLI_ASSIGN_OR_RETURN(Value made, context.list(std::move(row)));
    rows.push_back(std::move(made));
  }
  return context.list(std::move(rows));
}

/// So many lists, the first of which are one longer where the elements do not divide evenly.
Result<Value> slice_into(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("slice", arguments, {"slices", "fill_with"}, 1));
  SOLI_ASSIGN_OR_RETURN(const size_t n, width_argument("slice: slices", bound[0], 0));
  if (n == 0) return fail(ErrorKind::kInvalidArgument, "slice: slices is at least 1");
  SOLI_ASSIGN_OR_RETURN(const std::vector<Value> elements, elements_of(context, subject));
  const size_t least = elements.size() / n, longer = elements.size() % n;
  std::vector<Value> columns;
  size_t begin = 0;
  for (size_t i = 0; i < n; ++i) {
    const size_t end = begin + least + (i < longer ? 1 : 0);
    std::vector<Value> column(elements.begin() + static_cast<ptrdiff_t>(begin),
                              elements.begin() + static_cast<ptrdiff_t>(end));
    if (bound.has(1) && !bound[1].is_none() && i >= longer) column.push_back(bound[1]);
    SOLI_ASSIGN_OR_RETURN(Value made, context.list(std::move(column)));
    columns.push_back(std::move(made));
    begin = end;
  }
  return context.list(std::move(columns));
}

/// Pairs of a key and the elements that have it, sorted by key.
Result<Value> group_by(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound,
                        bind("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1));
  SOLI_ASSIGN_OR_RETURN(const std::vector<Value> elements, elements_of(context, subject));
  std::vector<Value> keys, shown;
  for (const Value& one : elements) {
    SOLI_ASSIGN_OR_RETURN(Value attribute, attribute_of(context, one, bound[0]));
    if (attribute.is_undefined() && bound.has(1)) attribute = bound[1];
    SOLI_ASSIGN_OR_RETURN(Value key, key_of(context, attribute, Value(), bound.truthy_or(2, false)));
    keys.push_back(std::move(key));
    shown.push_back(std::move(attribute));
  }
  SOLI_ASSIGN_OR_RETURN(const std::vector<size_t> order, sorted_order(context, keys, false));
  std::vector<Value> groups;
  for (size_t i = 0; i < order.size();) {
    std::vector<Value> members;
    const size_t first = order[i];
    bool same = true;
    while (same) {
      members.push_back(elements[order[i]]);
      if (++i == order.size()) break;
      SOLI_ASSIGN_OR_RETURN(same, equal(context, keys[first], keys[order[i]]));
    }
    SOLI_ASSIGN_OR_RETURN(Value group, context.list(std::move(members)));
    SOLI_ASSIGN_OR_RETURN(Value pair, context.tuple({shown[first], std::move(group)}));
    groups.push_back(std::move(pair));
  }
  return context.list(std::move(groups));
}

constexpr Filter kSequenceFilters[] = {
    {"batch", batch},        {"count", count},
    {"dictsort", sort_dict}, {"first", end_element<false>},
    {"groupby", group_by},   {"items", items_of_mapping},
    {"join", join},          {"last", end_element<true>},
    {"length", count},       {"list", list},
    {"max", extreme<true>},  {"min", extreme<false>},
    {"reverse", reverse},    {"slice", slice_into},
    {"sort", sort},          {"sum", sum},
    {"unique", unique},
};

}  // namespace

std::span<const Filter> sequence_filters() { return kSequenceFilters; }

}  // namespace soli::jinja
