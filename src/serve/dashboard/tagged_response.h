#pragma once

// Answers that a client asks for again and again.

#include <string>
#include <string_view>

#include "serve/http.h"

namespace soli::serve {

/// An ETag for these bytes: W/"...", a hash of them.
std::string tag_of(std::string_view bytes);

/// 200 with the body and its tag, or 304 without where the request names the tag in If-None-Match.
HttpResponse tagged_response(const HttpRequest& request, const std::string& tag, std::string body);

}  // namespace soli::serve
