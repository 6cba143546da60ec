#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "serve/request_log.h"

namespace soli::serve {

/// One path that is answered.
struct Route {
  RouteId id = RouteId::kOther;
  std::string_view path;     // as metrics call it; a trailing "{id}" stands for any rest
  std::string_view method;   // GET or POST. GET allows HEAD.
  bool is_open = false;      // without an API key
  bool needs_model = false;  // 503 until it is loaded
};

/// The route of a path, taken literally: nothing is decoded, and no path leads anywhere else. Null: 404.
const Route* find_route(std::string_view path);
const Route& route_of(RouteId id);

/// The page and what it shows.
bool is_of_dashboard(RouteId id);

/// "GET, HEAD, OPTIONS".
std::string allowed_methods(const Route& route);
bool allows_method(const Route& route, std::string_view method);

/// "%2F" and so on decoded, for an id within a path. Nothing where that is malformed.
std::optional<std::string> decode_percent(std::string_view text);

}  // namespace soli::serve
