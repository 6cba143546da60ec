#include "format/jinja/from_json.h"

#include "base/utf8.h"

namespace soli::jinja {
namespace {

using Json = nlohmann::ordered_json;

Result<Value> from_string(Context& context, const std::string& text) {
  SOLI_RETURN_IF_ERROR(context.room_for(text.size()));
  return context.text(is_valid_utf8(text) ? text : replace_invalid_utf8(text));
}

Result<Value> from_array(Context& context, const Json& json, int depth) {
  SOLI_RETURN_IF_ERROR(context.room_for(json.size() * kValueBytes));
  std::vector<Value> items;
  items.reserve(json.size());
  for (const Json& element : json) {
    SOLI_ASSIGN_OR_RETURN(Value item, from_json(context, element, depth + 1));
    items.push_back(std::move(item));
  }
  return context.list(std::move(items));
}

Result<Value> from_object(Context& context, const Json& json, int depth) {
  SOLI_RETURN_IF_ERROR(context.room_for(json.size() * sizeof(Dict::Entry)));
  std::vector<Dict::Entry> entries;
  entries.reserve(json.size());
  for (const auto& [name, element] : json.get_ref<const Json::object_t&>()) {
    SOLI_ASSIGN_OR_RETURN(Value key, from_string(context, name));
    SOLI_ASSIGN_OR_RETURN(Value value, from_json(context, element, depth + 1));
    entries.emplace_back(std::move(key), std::move(value));
  }
  return context.dict(std::move(entries));
}

}  // namespace

Result<Value> from_json(Context& context, const Json& json, int depth) {
  if (depth >= kMaxValueDepth) {
    return fail(ErrorKind::kLimit, "the input nests deeper than the {} levels allowed", kMaxValueDepth);
  }
  switch (json.type()) {
    case Json::value_t::null:
      return Value(None{});
    case Json::value_t::boolean:
      return Value(json.get<bool>());
    case Json::value_t::number_integer:
      return Value(json.get<int64_t>());
    case Json::value_t::number_unsigned: {
      const auto number = json.get<uint64_t>();
      if (number <= static_cast<uint64_t>(INT64_MAX)) return Value(static_cast<int64_t>(number));
      return fail(ErrorKind::kLimit, "the number {} is beyond the {} allowed", number, INT64_MAX);
    }
    case Json::value_t::number_float:
      return Value(json.get<double>());
    case Json::value_t::string:
      return from_string(context, json.get_ref<const std::string&>());
    case Json::value_t::array:
      return from_array(context, json, depth);
    case Json::value_t::object:
      return from_object(context, json, depth);
    default:
      break;
  }
  return fail(ErrorKind::kInvalidArgument, "the input holds a value that is no JSON");
}

}  // namespace soli::jinja
