// value[index], value[a:b:c], and going over a value.
#include <algorithm>

#include "base/utf8.h"
#include "format/jinja/operators.h"
#include "format/jinja/printing.h"
#include "format/jinja/unicode.h"

namespace soli::jinja {
namespace {

/// The characters of a text, each with its bytes.
std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> characters;
  while (!text.empty()) {
    size_t bytes = 0;
    front(text, bytes);
    characters.push_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return characters;
}

Status check_room_for_characters(Context& context, const Text& text) {
  SOLI_RETURN_IF_ERROR(context.work(text.bytes.size()));
  return context.room_for(text.bytes.size() * sizeof(std::string_view));
}

Result<Value> character(Context& context, const Text& text, int64_t index) {
  SOLI_RETURN_IF_ERROR(context.look_at(text.is_ascii ? 1 : text.bytes.size()));
  const auto n = static_cast<int64_t>(count_characters(text));
  if (index < 0) index += n;
  if (index < 0 || index >= n) {
    return undefined_because(fmt::format("str object has no element {}", index));
  }
  const size_t begin = offset_of(text, static_cast<size_t>(index));
  size_t bytes = 0;
  front(std::string_view(text.bytes).substr(begin), bytes);
  return context.text(text.bytes.substr(begin, bytes));
}

/// A bound of a slice: `fallback` where it is absent; counted from the end where negative; within [low,
/// high].
Result<int64_t> bound(const Value& value, int64_t n, int64_t low, int64_t high, int64_t fallback) {
  if (value.is_none()) return fallback;
  if (value.is_undefined()) return fail(ErrorKind::kInvalidArgument, "{}", value.why_undefined());
  if (!value.is_integral()) {
    return fail(ErrorKind::kInvalidArgument, "a slice wants whole numbers, not a {}", type_name(value));
  }
  int64_t index = value.as_int();
  if (index < 0) index = std::max(index, -n - 1) + n;
  return std::clamp(index, low, high);
}

struct SliceIndices {
  int64_t first = 0, step = 1, count = 0;
};

Result<SliceIndices> slice_indices(int64_t n, const Value& start, const Value& stop, const Value& step) {
  SliceIndices indices;
  if (!step.is_none()) {
    if (!step.is_integral() || step.as_int() == 0) {
      return fail(ErrorKind::kInvalidArgument, "the step of a slice is a whole number other than 0");
    }
    indices.step = step.as_int();
  }
  const bool forwards = indices.step > 0;
  const int64_t low = forwards ? 0 : -1;
  const int64_t high = forwards ? n : n - 1;
  SOLI_ASSIGN_OR_RETURN(indices.first, bound(start, n, low, high, forwards ? low : high));
  SOLI_ASSIGN_OR_RETURN(const int64_t end, bound(stop, n, low, high, forwards ? high : low));
  const int64_t span = forwards ? end - indices.first : indices.first - end;
  const uint64_t stride =
      forwards ? static_cast<uint64_t>(indices.step) : 0 - static_cast<uint64_t>(indices.step);
  if (span > 0) indices.count = static_cast<int64_t>((static_cast<uint64_t>(span) - 1) / stride) + 1;
  return indices;
}

Result<Value> slice_text(Context& context, const Text& text, const Value& start, const Value& stop,
                         const Value& step) {
  SOLI_RETURN_IF_ERROR(context.look_at(text.is_ascii ? 1 : text.bytes.size()));
  const auto n = static_cast<int64_t>(count_characters(text));
  SOLI_ASSIGN_OR_RETURN(const SliceIndices at, slice_indices(n, start, stop, step));
  if (at.step == 1) {
    const size_t begin = offset_of(text, static_cast<size_t>(at.first));
    const size_t end = offset_of(text, static_cast<size_t>(at.first + at.count));
    SOLI_RETURN_IF_ERROR(context.room_for(end - begin));
    return context.text(text.bytes.substr(begin, end - begin));
  }
  SOLI_RETURN_IF_ERROR(check_room_for_characters(context, text));
  const std::vector<std::string_view> characters = characters_of(text.bytes);
  std::string out;
  for (int64_t i = 0; i < at.count; ++i) out += characters[static_cast<size_t>(at.first + i * at.step)];
  return context.text(std::move(out));
}

}  // namespace

Value undefined_because(std::string why) {
  return Value(Undefined{std::make_shared<const std::string>(std::move(why))});
}

Value missing_attribute(const Value& value, std::string_view name) {
  return undefined_because(
      fmt::format("'{} object' has no attribute '{}'", type_name(value), printable(name)));
}

Result<Value> element(Context& context, const Value& value, const Value& index) {
  if (value.is_undefined()) return fail(ErrorKind::kInvalidArgument, "{}", value.why_undefined());
  if (const Dict* const dict = value.dict()) {
    if (const Result<const Value*> found = find_key(context, *dict, index); !found) {
      if (found.error().kind == ErrorKind::kLimit) return tl::unexpected<Error>(found.error());
    } else if (*found != nullptr) {
      return **found;
    }
  } else if (index.is_integral()) {
    if (const Text* const text = value.text()) return character(context, *text, index.as_int());
    if (const List* const list = value.list()) {
      const auto n = static_cast<int64_t>(list->items.size());
      const int64_t i = index.as_int() < 0 ? index.as_int() + n : index.as_int();
      if (i >= 0 && i < n) return list->items[static_cast<size_t>(i)];
    }
  }
  if (index.is_text()) return missing_attribute(value, index.bytes());
  TextBuilder shown(context, 256);
  append_value(shown, index, true);
  return undefined_because(
      fmt::format("{} object has no element {}", type_name(value), shown.finish().value_or("of this kind")));
}

Result<Value> slice(Context& context, const Value& value, const Value& start, const Value& stop,
                    const Value& step) {
  if (const Text* const text = value.text()) return slice_text(context, *text, start, stop, step);
  const List* const list = value.list();
  if (list == nullptr) {
    if (value.is_undefined()) return fail(ErrorKind::kInvalidArgument, "{}", value.why_undefined());
    return fail(ErrorKind::kInvalidArgument, "a slice wants a str or a list, not a {}", type_name(value));
  }
  SOLI_ASSIGN_OR_RETURN(const SliceIndices at,
                        slice_indices(static_cast<int64_t>(list->items.size()), start, stop, step));
  SOLI_RETURN_IF_ERROR(context.room_for(static_cast<size_t>(at.count) * kValueBytes));
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(at.count));
  for (int64_t i = 0; i < at.count; ++i)
    items.push_back(list->items[static_cast<size_t>(at.first + i * at.step)]);
  return list->is_tuple ? context.tuple(std::move(items)) : context.list(std::move(items));
}

Result<std::vector<Value>> elements_of(Context& context, const Value& value) {
  std::vector<Value> items;
  if (const List* const list = value.list()) {
    SOLI_RETURN_IF_ERROR(context.room_for(list->items.size() * kValueBytes));
    SOLI_RETURN_IF_ERROR(context.work(list->items.size()));
    return list->items;
  }
  if (const Dict* const dict = value.dict()) {
    SOLI_RETURN_IF_ERROR(context.room_for(dict->entries.size() * kValueBytes));
    SOLI_RETURN_IF_ERROR(context.work(dict->entries.size()));
    for (const auto& entry : dict->entries) items.push_back(entry.first);
    return items;
  }
  if (const Text* const text = value.text()) {
    SOLI_RETURN_IF_ERROR(check_room_for_characters(context, *text));
    for (const std::string_view one : characters_of(text->bytes)) {
      SOLI_ASSIGN_OR_RETURN(Value made, context.text(std::string(one)));
      items.push_back(std::move(made));
    }
    return items;
  }
  if (value.is_undefined()) return items;
  return fail(ErrorKind::kInvalidArgument, "a {} has no elements to go over", type_name(value));
}

Result<int64_t> length(Context& context, const Value& value) {
  if (const List* const list = value.list()) return static_cast<int64_t>(list->items.size());
  if (const Dict* const dict = value.dict()) return static_cast<int64_t>(dict->entries.size());
  if (const Text* const text = value.text()) {
    SOLI_RETURN_IF_ERROR(context.look_at(text->is_ascii ? 1 : text->bytes.size()));
    return static_cast<int64_t>(count_characters(*text));
  }
  if (value.is_undefined()) return 0;
  return fail(ErrorKind::kInvalidArgument, "a {} has no length", type_name(value));
}

}  // namespace soli::jinja
