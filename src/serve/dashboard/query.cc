#include "serve/dashboard/query.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/utf8.h"
#include "observe/heat_history.h"
#include "serve/routes.h"

namespace soli::serve {
namespace {

using openai::ApiResult;
using openai::bad_request;

constexpr int64_t kMostInteger = int64_t{1} << 53;

std::string known_names(const std::vector<std::string_view>& known) {
  if (known.empty()) return "there are none";
  return fmt::format("known: {}", fmt::join(known, ", "));
}

openai::ApiError wrong_value(std::string_view name, const std::string& value, const std::string& allowed) {
  return bad_request("invalid_value", std::string(name), "'{}' is '{}'; allowed: {}", name,
                     printable(value, 50), allowed);
}

}  // namespace

ApiResult<Query> Query::parse(std::string_view text, const std::vector<std::string_view>& known) {
  Query query;
  while (!text.empty()) {
    const size_t end = std::min(text.find('&'), text.size());
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (part.empty()) continue;
    const size_t middle = std::min(part.find('='), part.size());
    const std::string name(part.substr(0, middle));
    const std::string_view raw = part.substr(std::min(middle + 1, part.size()));
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return tl::unexpected(bad_request("unknown_parameter", printable(name, 50),
                                        "the parameter '{}' is not known; {}", printable(name, 50),
                                        known_names(known)));
    }
    if (query.find(name) != nullptr)
      return tl::unexpected(bad_request("invalid_value", name, "'{}' stands there twice", name));
    const std::optional<std::string> value = decode_percent(raw);
    if (!value) return tl::unexpected(wrong_value(name, std::string(raw), "well-formed percent signs"));
    query.values_.emplace_back(name, *value);
  }
  return query;
}

const std::string* Query::find(std::string_view name) const {
  for (const auto& [its_name, value] : values_) {
    if (its_name == name) return &value;
  }
  return nullptr;
}

ApiResult<int64_t> Query::integer(std::string_view name, int64_t otherwise) const {
  const std::string* const text = find(name);
  if (text == nullptr) return otherwise;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  const bool is_number = error == std::errc() && end == text->data() + text->size() && text->front() != '-';
  if (is_number && value <= kMostInteger) return value;
  return tl::unexpected(wrong_value(name, *text, fmt::format("a whole number from 0 to {}", kMostInteger)));
}

ApiResult<bool> Query::boolean(std::string_view name, bool otherwise) const {
  const std::string* const text = find(name);
  if (text == nullptr) return otherwise;
  if (*text == "true" || *text == "false") return *text == "true";
  return tl::unexpected(wrong_value(name, *text, "true, false"));
}

ApiResult<size_t> Query::tier() const {
  const std::string* const text = find("tier");
  if (text == nullptr) return size_t{0};
  std::string allowed;
  for (size_t t = 0; t < kHeatTiers.size(); ++t) {
    if (*text == kHeatTiers[t].name) return t;
    allowed += (t == 0 ? "" : ", ") + std::string(kHeatTiers[t].name);
  }
  return tl::unexpected(wrong_value("tier", *text, allowed));
}

}  // namespace soli::serve
