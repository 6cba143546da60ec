#include "format/jinja/value.h"

#include <algorithm>

#include "format/jinja/limits.h"

namespace soli::jinja {
namespace {

// What an allocation takes beside its contents, roughly.
constexpr size_t kOverheadBytes = 64;

bool all_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

Text::Text(std::string text) : bytes(std::move(text)), is_ascii(all_ascii(bytes)) {}

Text::Text(Meter& meter, std::string text)
    : Charged(meter, text.capacity() + sizeof(Text) + kOverheadBytes),
      bytes(std::move(text)),
      is_ascii(all_ascii(bytes)) {}

List::List(Meter& meter, std::vector<Value> values, bool tuple)
    : Charged(meter, values.capacity() * kValueBytes + sizeof(List) + kOverheadBytes),
      items(std::move(values)),
      is_tuple(tuple) {
  for (const Value& item : items) {
    holds_state = holds_state || item.holds_state();
    depth = std::max(depth, item.depth() + 1);
  }
}

Dict::Dict(Meter& meter, std::vector<Entry> pairs)
    : Charged(meter, pairs.capacity() * (sizeof(Entry) + sizeof(uint32_t)) + sizeof(Dict) + kOverheadBytes),
      entries(std::move(pairs)) {
  by_key.reserve(entries.size());
  for (uint32_t i = 0; i < entries.size(); ++i) {
    const auto& [key, value] = entries[i];
    holds_state = holds_state || key.holds_state() || value.holds_state();
    depth = std::max({depth, key.depth() + 1, value.depth() + 1});
    if (key.is_text()) by_key.push_back(i);
  }
  std::sort(by_key.begin(), by_key.end(),
            [&](uint32_t a, uint32_t b) { return entries[a].first.bytes() < entries[b].first.bytes(); });
}

const Value* Dict::find(std::string_view key) const {
  if (key.size() > kMaxKeyBytes) return nullptr;
  const auto place = std::lower_bound(by_key.begin(), by_key.end(), key, [&](uint32_t i, std::string_view k) {
    return entries[i].first.bytes() < k;
  });
  if (place == by_key.end() || entries[*place].first.bytes() != key) return nullptr;
  return &entries[*place].second;
}

std::string_view Value::why_undefined() const {
  if (const auto* const why = held_as<std::string>(Kind::kUndefined)) return *why;
  return "the value is undefined";
}

bool Value::holds_state() const {
  if (const List* const items = list()) return items->holds_state;
  if (const Dict* const mapping = dict()) return mapping->holds_state;
  if (const Object* const held = object()) return held->holds_state();
  return false;
}

int Value::depth() const {
  if (const List* const items = list()) return items->depth;
  if (const Dict* const mapping = dict()) return mapping->depth;
  return 0;
}

bool Value::truthy() const {
  if (is_undefined() || is_none()) return false;
  if (is_float()) return as_float() != 0;
  if (is_integral()) return as_int() != 0;
  if (const Text* const string = text()) return !string->bytes.empty();
  if (const List* const items = list()) return !items->items.empty();
  if (const Dict* const mapping = dict()) return !mapping->entries.empty();
  return true;
}

bool Value::same_as(const Value& other) const {
  if (kind_ != other.kind_) return false;
  if (is_undefined() || is_none()) return true;
  if (is_integral()) return as_int() == other.as_int();
  if (is_float()) return as_float() == other.as_float();
  if (is_text()) return bytes() == other.bytes();  // Python, too, shares most equal strings
  return held_ == other.held_;
}

std::string_view type_name(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "NoneType";
  if (value.is_bool()) return "bool";
  if (value.is_int()) return "int";
  if (value.is_float()) return "float";
  if (value.is_text()) return "str";
  if (const List* const list = value.list()) return list->is_tuple ? "tuple" : "list";
  if (value.dict() != nullptr) return "dict";
  switch (value.object()->kind) {
    case Object::Kind::kNamespace:
      return "Namespace";
    case Object::Kind::kLoop:
      return "LoopContext";
    case Object::Kind::kJoiner:
      return "Joiner";
    case Object::Kind::kCycler:
      return "Cycler";
    case Object::Kind::kMacro:
      return "Macro";
    case Object::Kind::kGlobal:
    case Object::Kind::kMethod:
      break;
  }
  return "function";
}

}  // namespace soli::jinja
