// Methods of lists and mappings, and which type has which.
#include <algorithm>
#include <array>

#include "format/jinja/methods.h"
#include "format/jinja/operators.h"

namespace soli::jinja {
namespace {

Result<Value> count_in_list(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("count", arguments, {"value"}, 1));
  int64_t n = 0;
  for (const Value& item : subject.list()->items) {
    SOLI_ASSIGN_OR_RETURN(const bool same, equal(context, item, bound[0]));
    n += same ? 1 : 0;
  }
  return Value(n);
}

Result<Value> index_in_list(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("index", arguments, {"value"}, 1));
  const std::vector<Value>& items = subject.list()->items;
  for (size_t i = 0; i < items.size(); ++i) {
    SOLI_ASSIGN_OR_RETURN(const bool same, equal(context, items[i], bound[0]));
    if (same) return Value(static_cast<int64_t>(i));
  }
  return fail(ErrorKind::kInvalidArgument, "index: the value is not in the list");
}

/// Values never change, so that a copy is the value itself.
Result<Value> copy(Context& /*context*/, const Value& subject, const Arguments& arguments) {
  SOLI_RETURN_IF_ERROR(bind("copy", arguments, {}));
  return subject;
}

Result<Value> get(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("get", arguments, {"key", "default"}, 1));
  SOLI_ASSIGN_OR_RETURN(const Value* const found, find_key(context, *subject.dict(), bound[0]));
  if (found != nullptr) return *found;
  const bool has_default = arguments.positional.size() + arguments.named.size() > 1;
  return has_default ? bound[1] : Value(None{});
}

Result<Value> keys(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_RETURN_IF_ERROR(bind("keys", arguments, {}));
  SOLI_ASSIGN_OR_RETURN(std::vector<Value> items, elements_of(context, subject));
  return context.list(std::move(items));
}

Result<Value> values(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_RETURN_IF_ERROR(bind("values", arguments, {}));
  SOLI_RETURN_IF_ERROR(context.room_for(subject.dict()->entries.size() * kValueBytes));
  std::vector<Value> items;
  for (const auto& entry : subject.dict()->entries) items.push_back(entry.second);
  return context.list(std::move(items));
}

Result<Value> items(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_RETURN_IF_ERROR(bind("items", arguments, {}));
  std::vector<Value> pairs;
  for (const auto& [key, value] : subject.dict()->entries) {
    SOLI_ASSIGN_OR_RETURN(Value pair, context.tuple({key, value}));
    pairs.push_back(std::move(pair));
  }
  return context.list(std::move(pairs));
}

constexpr Filter kListMethods[] = {{"copy", copy}, {"count", count_in_list}, {"index", index_in_list}};
constexpr Filter kDictMethods[] = {
    {"copy", copy}, {"get", get}, {"items", items}, {"keys", keys}, {"values", values}};

constexpr std::string_view kChangingListMethods[] = {"append", "clear",  "extend",  "insert",
                                                     "pop",    "remove", "reverse", "sort"};
constexpr std::string_view kChangingDictMethods[] = {"clear", "pop", "popitem", "setdefault", "update"};

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

const Filter* find_method(const Value& value, std::string_view name) {
  if (value.is_text()) {
    const Filter* const found = find_in(text_methods(), name);
    return found != nullptr ? found : find_in(text_search_methods(), name);
  }
  if (value.list() != nullptr) return find_in(kListMethods, name);
  if (value.dict() != nullptr) return find_in(kDictMethods, name);
  return nullptr;
}

bool is_changing_method(const Value& value, std::string_view name) {
  if (const List* const list = value.list()) return !list->is_tuple && is_one_of(kChangingListMethods, name);
  return value.dict() != nullptr && is_one_of(kChangingDictMethods, name);
}

}  // namespace soli::jinja
