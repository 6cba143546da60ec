#include "serve/dashboard/page.h"

#include <fmt/format.h>

#include <string_view>

#include "serve/dashboard/tagged_response.h"

namespace soli::serve {

HttpResponse page_response(const HttpRequest& request) {
  const std::string_view page(reinterpret_cast<const char*>(kPageBytes), kPageSize);
  HttpResponse response = tagged_response(request, tag_of(page), std::string(page));
  response.headers.push_back({"Content-Type", "text/html; charset=utf-8"});
  response.headers.push_back({"Cache-Control", "no-cache"});
  // Charts set the styles of what they draw.
  response.headers.push_back(
      {"Content-Security-Policy",
       fmt::format("default-src 'none'; script-src{}; style-src 'unsafe-inline'; img-src 'self' data:; "
                   "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
                   kPageScripts)});
  response.headers.push_back({"X-Content-Type-Options", "nosniff"});
  response.headers.push_back({"Referrer-Policy", "no-referrer"});
  return response;
}

}  // namespace soli::serve
