#include "format/hf/json.h"

#include <utility>

#include "base/utf8.h"

namespace soli::hf {

std::string described(const nlohmann::json& value) {
  switch (value.type()) {
    case nlohmann::json::value_t::string:
      return fmt::format("'{}'", printable(value.get_ref<const std::string&>()));
    case nlohmann::json::value_t::object:
      return "an object";
    case nlohmann::json::value_t::array:
      return "an array";
    default:
      return value.dump();
  }
}

tl::unexpected<Error> JsonValue::wrong(std::string_view wanted) const {
  return fail(ErrorKind::kMalformed, "{} is {}; {} is allowed", path_.empty() ? "the file" : path_,
              described(*value_), wanted);
}

std::optional<JsonValue> JsonValue::find(std::string_view key) const {
  if (!value_->is_object()) return std::nullopt;
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return JsonValue(*found, path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key));
}

Result<JsonValue> JsonValue::at(std::string_view key) const {
  if (!value_->is_object()) return wrong("an object");
  auto found = find(key);
  if (!found) {
    return fail(ErrorKind::kMalformed, "{} has no '{}'", path_.empty() ? "the file" : path_, key);
  }
  return *std::move(found);
}

Result<std::vector<JsonValue>> JsonValue::items(size_t limit) const {
  if (!value_->is_array()) return wrong("an array");
  if (value_->size() > limit) {
    return fail(ErrorKind::kLimit, "{} has {} entries; {} are allowed", path_, value_->size(), limit);
  }
  std::vector<JsonValue> out;
  for (size_t i = 0; i < value_->size(); ++i) out.emplace_back((*value_)[i], fmt::format("{}[{}]", path_, i));
  return out;
}

Result<std::vector<std::pair<std::string, JsonValue>>> JsonValue::members() const {
  if (!value_->is_object()) return wrong("an object");
  std::vector<std::pair<std::string, JsonValue>> out;
  for (const auto& [key, member] : value_->items()) {
    out.emplace_back(key, JsonValue(member, fmt::format("{}['{}']", path_, printable(key))));
  }
  return out;
}

Result<std::string> JsonValue::text() const {
  if (!value_->is_string()) return wrong("a string");
  return value_->get<std::string>();
}

Result<bool> JsonValue::flag() const {
  if (!value_->is_boolean()) return wrong("true or false");
  return value_->get<bool>();
}

Result<double> JsonValue::number() const {
  if (!value_->is_number()) return wrong("a number");
  return value_->get<double>();
}

Result<int64_t> JsonValue::integer(int64_t min, int64_t max) const {
  const bool fits =
      value_->is_number_unsigned() ? value_->get<uint64_t>() <= INT64_MAX : value_->is_number_integer();
  const int64_t number = fits ? value_->get<int64_t>() : 0;
  if (!fits || number < min || number > max)
    return wrong(fmt::format("a whole number from {} to {}", min, max));
  return number;
}

Result<std::string> JsonValue::text_at(std::string_view key) const {
  SOLI_ASSIGN_OR_RETURN(const JsonValue value, at(key));
  return value.text();
}

Result<std::string> JsonValue::text_or(std::string_view key, std::string_view fallback) const {
  const auto value = find(key);
  return value ? value->text() : std::string(fallback);
}

Result<bool> JsonValue::flag_or(std::string_view key, bool fallback) const {
  const auto value = find(key);
  return value ? value->flag() : fallback;
}

Result<int64_t> JsonValue::integer_or(std::string_view key, int64_t min, int64_t max,
                                      int64_t fallback) const {
  const auto value = find(key);
  return value ? value->integer(min, max) : fallback;
}

}  // namespace soli::hf
