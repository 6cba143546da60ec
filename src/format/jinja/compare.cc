// Equality, order and membership.
#include <algorithm>
#include <numeric>

#include "format/jinja/operators.h"
#include "format/jinja/unicode.h"

namespace soli::jinja {
namespace {

constexpr const char* kComparisonSymbols[] = {"==", "!=", "<", "<=", ">", ">=", "in", "not in"};

/// -1, 0 or 1; comparing a 64-bit integer with another never goes through a float.
int order_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int() ? 1 : 0;
  }
  return a.as_float() < b.as_float() ? -1 : a.as_float() > b.as_float() ? 1 : 0;
}

bool equal_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.as_int() == b.as_int();
  return a.as_float() == b.as_float();
}

bool same_kind_of_list(const Value& a, const Value& b) {
  return a.list() != nullptr && b.list() != nullptr && a.list()->is_tuple == b.list()->is_tuple;
}

Result<bool> equal_dicts(Context& context, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    SOLI_ASSIGN_OR_RETURN(const Value* const other, find_key(context, b, key));
    if (other == nullptr) return false;
    SOLI_ASSIGN_OR_RETURN(const bool same, equal(context, value, *other));
    if (!same) return false;
  }
  return true;
}

Result<bool> less_lists(Context& context, const List& a, const List& b) {
  const size_t n = std::min(a.items.size(), b.items.size());
  for (size_t i = 0; i < n; ++i) {
    SOLI_ASSIGN_OR_RETURN(const bool same, equal(context, a.items[i], b.items[i]));
    if (!same) return less(context, a.items[i], b.items[i]);
  }
  return a.items.size() < b.items.size();
}

bool is_hashable(const Value& value) {
  if (const List* const list = value.list()) {
    return list->is_tuple && std::all_of(list->items.begin(), list->items.end(), is_hashable);
  }
  return value.dict() == nullptr;
}

}  // namespace

Result<bool> equal(Context& context, const Value& a, const Value& b) {
  SOLI_RETURN_IF_ERROR(context.work(1));
  if (a.is_number() && b.is_number()) return equal_numbers(a, b);
  if (a.is_text() && b.is_text()) {
    if (a.bytes().size() != b.bytes().size()) return false;
    SOLI_RETURN_IF_ERROR(context.look_at(a.bytes().size()));
    return a.bytes() == b.bytes();
  }
  if (same_kind_of_list(a, b)) {
    const std::vector<Value>&x = a.list()->items, &y = b.list()->items;
    if (x.size() != y.size()) return false;
    for (size_t i = 0; i < x.size(); ++i) {
      SOLI_ASSIGN_OR_RETURN(const bool same, equal(context, x[i], y[i]));
      if (!same) return false;
    }
    return true;
  }
  if (a.dict() != nullptr && b.dict() != nullptr) return equal_dicts(context, *a.dict(), *b.dict());
  if (a.object() != nullptr || b.object() != nullptr) return a.object() == b.object();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

Result<bool> less(Context& context, const Value& a, const Value& b) {
  SOLI_RETURN_IF_ERROR(context.work(1));
  if (a.is_number() && b.is_number()) return order_numbers(a, b) < 0;
  if (a.is_text() && b.is_text()) {
    SOLI_RETURN_IF_ERROR(context.look_at(std::min(a.bytes().size(), b.bytes().size())));
    return a.bytes() < b.bytes();  // UTF-8 sorts as its code points do
  }
  if (same_kind_of_list(a, b)) return less_lists(context, *a.list(), *b.list());
  for (const Value* const value : {&a, &b}) {
    if (value->is_undefined()) return fail(ErrorKind::kInvalidArgument, "{}", value->why_undefined());
  }
  return fail(ErrorKind::kInvalidArgument, "{} and {} have no order", type_name(a), type_name(b));
}

Result<bool> contains(Context& context, const Value& container, const Value& item) {
  if (container.is_undefined()) return false;
  if (const Text* const text = container.text()) {
    if (!item.is_text()) {
      return fail(ErrorKind::kInvalidArgument, "'in' of a str wants a str, not a {}", type_name(item));
    }
    SOLI_RETURN_IF_ERROR(context.look_at(text->bytes.size() + item.bytes().size()));
    return find_first(text->bytes, item.bytes()) != std::string_view::npos;
  }
  if (const List* const list = container.list()) {
    for (const Value& candidate : list->items) {
      SOLI_ASSIGN_OR_RETURN(const bool same, equal(context, candidate, item));
      if (same) return true;
    }
    return false;
  }
  if (const Dict* const dict = container.dict()) {
    SOLI_ASSIGN_OR_RETURN(const Value* const found, find_key(context, *dict, item));
    return found != nullptr;
  }
  return fail(ErrorKind::kInvalidArgument, "'in' wants a str, a list or a dict, not a {}",
              type_name(container));
}

Result<bool> compare(Context& context, Comparison op, const Value& a, const Value& b) {
  switch (op) {
    case Comparison::kEqual:
      return equal(context, a, b);
    case Comparison::kNotEqual:
      return equal(context, a, b).map([](bool same) { return !same; });
    case Comparison::kIn:
      return contains(context, b, a);
    case Comparison::kNotIn:
      return contains(context, b, a).map([](bool found) { return !found; });
    default:
      break;
  }
  const bool backwards = op == Comparison::kGreater || op == Comparison::kGreaterEqual;
  const bool or_equal = op == Comparison::kLessEqual || op == Comparison::kGreaterEqual;
  const Result<bool> strictly = backwards ? less(context, b, a) : less(context, a, b);
  if (!strictly) {
    return fail(strictly.error().kind, "{}: {}", kComparisonSymbols[static_cast<int>(op)],
                strictly.error().message);
  }
  if (*strictly || !or_equal) return *strictly;
  return equal(context, a, b);
}

Result<const Value*> find_key(Context& context, const Dict& dict, const Value& key) {
  SOLI_RETURN_IF_ERROR(context.work(1));
  if (key.is_text()) return dict.find(key.bytes());
  if (!is_hashable(key)) {
    return fail(ErrorKind::kInvalidArgument, "a {} cannot be a key", type_name(key));
  }
  if (dict.by_key.size() == dict.entries.size()) return nullptr;  // all keys are strings
  for (const auto& [candidate, value] : dict.entries) {
    SOLI_ASSIGN_OR_RETURN(const bool same, equal(context, candidate, key));
    if (same) return &value;
  }
  return nullptr;
}

Status merge_equal_keys(Context& context, std::vector<Dict::Entry>& entries) {
  // Strings are sorted to find equal ones; other keys are few and compared one by one.
  std::vector<size_t> order;
  std::vector<size_t> first_of(entries.size());
  std::iota(first_of.begin(), first_of.end(), size_t{0});
  for (size_t i = 0; i < entries.size(); ++i) {
    const Value& key = entries[i].first;
    if (key.is_text()) {
      order.push_back(i);
      continue;
    }
    if (!is_hashable(key)) {
      return fail(ErrorKind::kInvalidArgument, "a {} cannot be a key", type_name(key));
    }
    for (size_t j = 0; j < i && first_of[i] == i; ++j) {
      SOLI_ASSIGN_OR_RETURN(const bool same, equal(context, entries[j].first, key));
      if (same) first_of[i] = j;
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return entries[a].first.bytes() < entries[b].first.bytes(); });
  for (size_t i = 1; i < order.size(); ++i) {
    const size_t before = order[i - 1];
    if (entries[before].first.bytes() == entries[order[i]].first.bytes())
      first_of[order[i]] = first_of[before];
  }
  size_t n = 0;
  std::vector<size_t> place(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    if (first_of[i] == i) {
      place[i] = n;
      if (n != i) entries[n] = std::move(entries[i]);
      ++n;
    } else {
      entries[place[first_of[i]]].second = std::move(entries[i].second);
    }
  }
  entries.resize(n);
  return {};
}

}  // namespace soli::jinja
