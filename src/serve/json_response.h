#pragma once

#include <string>

#include "serve/http.h"
#include "serve/openai/api_error.h"

namespace soli::serve {

HttpResponse json_response(int status, std::string body);
/// With Retry-After where it makes sense to try again, and WWW-Authenticate where a key is missing.
HttpResponse error_response(const openai::ApiError& error);

}  // namespace soli::serve
