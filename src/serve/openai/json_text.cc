#include "serve/openai/json_text.h"

#include <cmath>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/utf8.h"

namespace soli::openai {
namespace {

/// Takes the events of nlohmann's reader, which does not recurse, and builds the value within the limits.
class Builder {
 public:
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  explicit Builder(const JsonLimits& limits) : limits_(limits) {}

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(number_integer_t value) { return add(value); }
  bool number_unsigned(number_unsigned_t value) { return add(value); }
  bool number_float(number_float_t value, const string_t& text) {
    if (std::isfinite(value)) return add(value);
    return fail("the number {} is out of range", printable(text, 40));
  }
  bool string(string_t& value) { return add(std::move(value)); }
  bool binary(binary_t& /*value*/) { return fail("binary values are not JSON"); }
  bool start_object(size_t /*n*/) { return open(Json::object()); }
  bool start_array(size_t /*n*/) { return open(Json::array()); }
  bool end_array() { return close(); }
  bool end_object() { return close(); }

  bool key(string_t& name) {
    if (name.size() > limits_.key_bytes) {
      return fail("a member's name has {} bytes; allowed are {}", name.size(), limits_.key_bytes);
    }
    Level& level = open_.back();
    if (level.names.size() == limits_.members) {
      return fail("an object has more than {} members", limits_.members);
    }
    if (!level.names.insert(name).second) return fail("the member '{}' stands there twice", printable(name));
    level.name = std::move(name);
    return true;
  }

  bool parse_error(size_t position, const std::string& /*token*/, const nlohmann::detail::exception& error) {
    if (error.id == kNumberOverflow) return fail("a number before byte {} is out of range", position);
    return fail("no JSON at byte {}", position);
  }

  std::string& error() { return error_; }
  Json& root() { return root_; }

 private:
  static constexpr int kNumberOverflow = 406;  // of nlohmann's error ids

  struct Level {
    Json* value;
    std::string name;  // of the member that comes next, in an object
    std::unordered_set<std::string> names;
  };

  template <typename... Args>
  bool fail(fmt::format_string<Args...> format, Args&&... args) {
    if (error_.empty()) error_ = fmt::format(format, std::forward<Args>(args)...);
    return false;
  }

  bool add(Json value) { return place(std::move(value)) != nullptr; }

  Json* place(Json value) {
    if (++n_values_ > limits_.values) {
      fail("the body has more than {} values", limits_.values);
      return nullptr;
    }
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Level& level = open_.back();
    if (level.value->is_array()) {
      level.value->push_back(std::move(value));
      return &level.value->back();
    }
    // Not through operator[], which would compare the name with all before it.
    auto& members = level.value->get_ref<Json::object_t&>();
    members.Container::emplace_back(std::move(level.name), std::move(value));
    return &members.back().second;
  }

  bool open(Json container) {
    if (open_.size() == static_cast<size_t>(limits_.depth)) {
      return fail("the body nests deeper than the {} levels allowed", limits_.depth);
    }
    Json* const placed = place(std::move(container));
    if (placed == nullptr) return false;
    open_.push_back({placed, {}, {}});
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  const JsonLimits& limits_;
  size_t n_values_ = 0;
  Json root_;
  std::vector<Level> open_;  // from the outside in; a container does not grow while one within it is open
  std::string error_;
};

}  // namespace

ApiResult<Json> read_object(std::string_view body, const JsonLimits& limits) {
  if (body.size() > limits.bytes) {
    return tl::unexpected(
        ApiError{413, kInvalidRequest, "body_too_large", "",
                 fmt::format("the body has {} bytes; allowed are {}", body.size(), limits.bytes)});
  }
  const auto refuse = [](const std::string& why) {
    return tl::unexpected(bad_request("invalid_json", "", "the body cannot be read: {}", why));
  };
  if (body.empty()) return refuse("it is empty; a JSON object is wanted");
  if (!is_valid_utf8(body)) return refuse("it is not UTF-8");
  // nlohmann's reader would take it for the end.
  if (const size_t at = body.find('\0'); at != body.npos)
    return refuse(fmt::format("no JSON at byte {}", at + 1));
  Builder builder(limits);
  if (!Json::sax_parse(body, &builder)) return refuse(builder.error());
  if (!builder.root().is_object()) {
    return refuse(fmt::format("it is of type {}; an object is wanted", builder.root().type_name()));
  }
  return std::move(builder.root());
}

std::string to_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace soli::openai
