#include "serve/dashboard/tagged_response.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

namespace soli::serve {
namespace {

/// The value of If-None-Match is "*" or a list of tags; the mark of weak ones makes no difference.
bool names_tag(std::string_view list, std::string_view tag) {
  const std::string_view quoted = tag.substr(tag.find('"'));
  while (!list.empty()) {
    const size_t end = std::min(list.find(','), list.size());
    std::string_view item = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    while (!item.empty() && (item.front() == ' ' || item.front() == '\t')) item.remove_prefix(1);
    while (!item.empty() && (item.back() == ' ' || item.back() == '\t')) item.remove_suffix(1);
    if (item.starts_with("W/")) item.remove_prefix(2);
    if (item == "*" || item == quoted) return true;
  }
  return false;
}

}  // namespace

std::string tag_of(std::string_view bytes) {
  return fmt::format("W/\"{:016x}\"", XXH3_64bits(bytes.data(), bytes.size()));
}

HttpResponse tagged_response(const HttpRequest& request, const std::string& tag, std::string body) {
  HttpResponse response;
  response.headers = {{"ETag", tag}};
  const std::string* const known = request.find_header("if-none-match");
  if (known != nullptr && names_tag(*known, tag)) {
    response.status = 304;
  } else {
    response.body = std::move(body);
  }
  return response;
}

}  // namespace soli::serve
