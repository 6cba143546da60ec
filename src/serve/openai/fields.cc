#include "serve/openai/fields.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"

namespace soli::openai {

std::string shown(const Json& value) {
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  if (value.is_object()) return "an object";
  if (value.is_string()) {
    return fmt::format("'{}'", printable(value.get_ref<const std::string&>(), 60));
  }
  return to_text(value);
}

Fields::Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
  SOLI_CHECK(object.is_object());
}

const Json* Fields::find(std::string_view name) {
  for (const auto& [key, value] : object_.get_ref<const Json::object_t&>()) {
    if (key != name) continue;
    known_.push_back(&value);
    return value.is_null() ? nullptr : &value;
  }
  return nullptr;
}

void Fields::fail(ApiError error) {
  if (!error_) error_ = std::move(error);
}

void Fields::fail_value(std::string_view name, const Json& value, std::string_view wanted) {
  const std::string path = path_of(name);
  fail(bad_request("invalid_value", path, "'{}' is {}; allowed is {}", path, shown(value), wanted));
}

std::optional<double> Fields::number(std::string_view name, Allowed<double> allowed) {
  const Json* const value = find(name);
  if (value == nullptr) return {};
  const double number = value->is_number() ? value->get<double>() : 0;
  if (value->is_number() && number <= allowed.most &&
      (allowed.without_least ? number > allowed.least : number >= allowed.least)) {
    return number;
  }
  fail_value(name, *value,
             fmt::format("a number {} {} to {}", allowed.without_least ? "above" : "from", allowed.least,
                         allowed.most));
  return {};
}

std::optional<int64_t> Fields::integer(std::string_view name, Allowed<int64_t> allowed) {
  const Json* const value = find(name);
  if (value == nullptr) return {};
  constexpr auto kMost = std::numeric_limits<int64_t>::max();
  // Beyond it, get<int64_t>() would wrap.
  const bool fits = value->is_number_integer() &&
                    (!value->is_number_unsigned() || value->get<uint64_t>() <= static_cast<uint64_t>(kMost));
  if (fits) {
    const auto number = value->get<int64_t>();
    if (number >= allowed.least && number <= allowed.most) return number;
  }
  fail_value(name, *value,
             allowed.most == kMost
                 ? fmt::format("a whole number from {}", allowed.least)
                 : fmt::format("a whole number from {} to {}", allowed.least, allowed.most));
  return {};
}

std::optional<bool> Fields::boolean(std::string_view name) {
  const Json* const value = find(name);
  if (value == nullptr) return {};
  if (value->is_boolean()) return value->get<bool>();
  fail_value(name, *value, "true or false");
  return {};
}

std::optional<std::string> Fields::text(std::string_view name) {
  const Json* const value = find(name);
  if (value == nullptr) return {};
  if (value->is_string()) return value->get<std::string>();
  fail_value(name, *value, "a string");
  return {};
}

std::optional<size_t> Fields::word(std::string_view name, const std::vector<std::string_view>& words) {
  const Json* const value = find(name);
  if (value == nullptr) return {};
  if (value->is_string()) {
    const auto found = std::find(words.begin(), words.end(), value->get_ref<const std::string&>());
    if (found != words.end()) return static_cast<size_t>(found - words.begin());
  }
  std::string list;
  for (const std::string_view word : words) list += fmt::format("{}'{}'", list.empty() ? "" : ", ", word);
  fail_value(name, *value, list);
  return {};
}

void Fields::neutral(std::string_view name, const std::vector<Json>& values) {
  const Json* const value = find(name);
  if (value == nullptr || std::find(values.begin(), values.end(), *value) != values.end()) return;
  const std::string path = path_of(name);
  std::string allowed = "leave it out";
  for (const Json& neutral : values) allowed += fmt::format(", or send {}", to_text(neutral));
  fail(bad_request("unsupported_parameter", path, "'{}' is {}, which this server does not do; {}", path,
                   shown(*value), allowed));
}

void Fields::label(std::string_view name, Json::value_t type) {
  const Json* const value = find(name);
  if (value == nullptr || value->type() == type) return;
  fail_value(name, *value, fmt::format("of type {}", Json(type).type_name()));
}

ApiStatus Fields::finish() {
  if (error_) return tl::unexpected(*error_);
  for (const auto& [key, value] : object_.get_ref<const Json::object_t&>()) {
    if (std::find(known_.begin(), known_.end(), &value) != known_.end()) continue;
    const std::string path = path_of(printable(key));
    return tl::unexpected(
        bad_request("unknown_parameter", path, "'{}' is no parameter of this endpoint", path));
  }
  return {};
}

}  // namespace soli::openai
