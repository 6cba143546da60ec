#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/openai/json_text.h"

namespace soli::openai {

/// What a number may be.
template <typename T>
struct Allowed {
  T least;
  T most;
  bool without_least = false;
};

/// Reads the members of an object by name and type. Keeps the first error, so that a caller reads all it
/// wants and asks at the end. A member that is null counts as absent.
class Fields {
 public:
  /// `object` is an object, borrowed; `path` stands before names in errors ("stream_options.").
  explicit Fields(const Json& object, std::string path = "");

  /// The member, or null where it is absent.
  const Json* find(std::string_view name);
  std::optional<double> number(std::string_view name, Allowed<double> allowed);
  std::optional<int64_t> integer(std::string_view name, Allowed<int64_t> allowed);
  std::optional<bool> boolean(std::string_view name);
  std::optional<std::string> text(std::string_view name);
  /// One of the words, as its index.
  std::optional<size_t> word(std::string_view name, const std::vector<std::string_view>& words);
  /// For parameters that OpenAI knows and soli does not do: refused, unless the value is one of these, which
  /// ask for nothing.
  void neutral(std::string_view name, const std::vector<Json>& values);
  /// The same for what only labels the request: any value of that type is fine.
  void label(std::string_view name, Json::value_t type);

  void fail(ApiError error);
  void fail_value(std::string_view name, const Json& value, std::string_view wanted);
  bool failed() const { return error_.has_value(); }
  std::string path_of(std::string_view name) const { return path_ + std::string(name); }
  /// The first error; where there is none, an error for a member that nobody asked for.
  ApiStatus finish();

 private:
  const Json& object_;
  const std::string path_;
  std::vector<const Json*> known_;
  std::optional<ApiError> error_;
};

/// A value for an error message: short, on one line.
std::string shown(const Json& value);

}  // namespace soli::openai
