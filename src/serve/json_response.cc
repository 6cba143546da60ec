#include "serve/json_response.h"

#include <utility>

namespace soli::serve {

HttpResponse json_response(int status, std::string body) {
  HttpResponse response;
  response.status = status;
  response.headers = {{"Content-Type", "application/json"}};
  response.body = std::move(body);
  return response;
}

HttpResponse error_response(const openai::ApiError& error) {
  HttpResponse response = json_response(error.status, openai::error_body(error));
  if (error.status == 429 || error.status == 503) response.headers.push_back({"Retry-After", "1"});
  if (error.status == 401) response.headers.push_back({"WWW-Authenticate", "Bearer"});
  return response;
}

}  // namespace soli::serve
