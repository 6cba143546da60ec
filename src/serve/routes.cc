#include "serve/routes.h"

#include <array>

#include "base/check.h"

namespace soli::serve {
namespace {

constexpr std::string_view kRest = "{id}";

constexpr std::array kRoutes = {
    Route{RouteId::kHealth, "/health", "GET", true, false},
    Route{RouteId::kReady, "/ready", "GET", true, false},
    Route{RouteId::kMetrics, "/metrics", "GET", false, false},
    Route{RouteId::kModels, "/v1/models", "GET", false, true},
    Route{RouteId::kModel, "/v1/models/{id}", "GET", false, true},
    Route{RouteId::kProps, "/props", "GET", false, true},
    Route{RouteId::kChat, "/v1/chat/completions", "POST", false, true},
    Route{RouteId::kCompletions, "/v1/completions", "POST", false, true},
    Route{RouteId::kEmbeddings, "/v1/embeddings", "POST", false, true},
    Route{RouteId::kTokenize, "/tokenize", "POST", false, true},
    Route{RouteId::kDetokenize, "/detokenize", "POST", false, true},
    Route{RouteId::kApplyTemplate, "/apply-template", "POST", false, true},
    Route{RouteId::kDashboard, "/dashboard", "GET", true, false},
    Route{RouteId::kDashboard, "/dashboard/", "GET", true, false},
    Route{RouteId::kDashboardState, "/api/v1/dashboard/state", "GET", false, true},
    Route{RouteId::kDashboardSeries, "/api/v1/dashboard/series", "GET", false, true},
    Route{RouteId::kDashboardHeat, "/api/v1/dashboard/heat", "GET", false, true},
    Route{RouteId::kDashboardExperts, "/api/v1/dashboard/experts", "GET", false, true},
    Route{RouteId::kDashboardAlarms, "/api/v1/dashboard/alarms", "GET", false, true},
    Route{RouteId::kDashboardRequests, "/api/v1/dashboard/requests", "GET", false, true},
    Route{RouteId::kDashboardRequest, "/api/v1/dashboard/requests/{id}", "GET", false, true},
};
constexpr Route kOtherRoute = {RouteId::kOther, "other", "", false, false};

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

}  // namespace

const Route* find_route(std::string_view path) {
  for (const Route& route : kRoutes) {
    if (route.path.ends_with(kRest)) {
      const std::string_view prefix = route.path.substr(0, route.path.size() - kRest.size());
      if (path.starts_with(prefix) && path.size() > prefix.size()) return &route;
    } else if (route.path == path) {
      return &route;
    }
  }
  return nullptr;
}

const Route& route_of(RouteId id) {
  for (const Route& route : kRoutes) {
    if (route.id == id) return route;
  }
  return kOtherRoute;
}

std::string allowed_methods(const Route& route) {
  return route.method == "GET" ? "GET, HEAD, OPTIONS" : std::string(route.method) + ", OPTIONS";
}

bool is_of_dashboard(RouteId id) { return id >= RouteId::kDashboard && id <= RouteId::kDashboardRequest; }

bool allows_method(const Route& route, std::string_view method) {
  return method == route.method || (method == "HEAD" && route.method == "GET");
}

std::optional<std::string> decode_percent(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return {};
    const int high = digit(text[i + 1]);
    const int low = digit(text[i + 2]);
    if (high < 0 || low < 0) return {};
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

}  // namespace soli::serve
